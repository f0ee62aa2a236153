NR > 220000 { exit }
{ for (i = 2; i <= NF; i++) { n[$i]++; s[substr($i, 1, 2)] = s[substr($i, 1, 2)] substr($i, 1, 1) } }
/a[a-z]+ b/ { gsub(/[0-9]+/, "<&>"); long += length($0) }
END { for (w in n) t += n[w] * length(w); for (k in s) u += length(s[k]); print t, u, long }
