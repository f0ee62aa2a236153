# Arrays, substitutions, here-documents, subshells, coprocesses: bash allocates for each word.
set -euo pipefail

checksum() { cksum | cut -d' ' -f1; }

declare -A table
for ((i = 0; i < 20000; i++)); do
  key="k$((i * 7919 % 503))"
  table[$key]+="$i,"
done
for key in "${!table[@]}"; do printf '%s %s\n' "$key" "${#table[$key]}"; done | sort | checksum

text=""
for ((i = 0; i < 5000; i++)); do
  text+="word$i "
done
words=($text)
echo "words ${#words[@]} $(printf '%s\n' "${words[@]^^}" | checksum)"
echo "replace $(echo "${text//word/-}" | checksum)"

total=0
while read -r number rest; do
  [[ $number =~ ^([0-9]+)5$ ]] && ((total += ${BASH_REMATCH[1]}))
done < <(seq 1 20000 | while read -r n; do echo "$n of many"; done)
echo "read $total"

fib() { (($1 < 2)) && echo "$1" || echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); }
echo "subshells $(fib 8)"

coproc SUM { total=0; while read -r n; do ((total += n)); done; echo "$total"; }
# Both ends by other numbers: bash drops SUM as soon as the coprocess has ended.
eval "exec 5>&${SUM[1]} ${SUM[1]}>&- 6<&${SUM[0]}"
seq 1 1000 >&5
exec 5>&-
read -r total <&6
exec 6<&-
echo "coproc $total"

for n in 1 2 3 4; do (printf '%s\n' "${words[@]:0:200}" | tac | checksum > "part$n") & done
wait
cat part1 part2 part3 part4
