# Dictionaries, lists, strings and nested interpreters.
set seed 3
proc draw {n} {
    global seed
    set seed [expr {($seed * 1103515245 + 12345) & 0x7fffffff}]
    return [expr {($seed >> 8) % $n}]
}
set table [dict create]
for {set i 0} {$i < 60000} {incr i} {
    dict lappend table key[draw 4000] [string repeat x [draw 60]]
}
set lines {}
foreach key [lsort [dict keys $table]] {
    lappend lines "$key [llength [dict get $table $key]] [string length [dict get $table $key]]"
}
puts "dict [dict size $table] [zlib crc32 [join $lines \n]]"
set text [join $lines ,]
puts "regsub [regsub -all {key(\d+)} $text {<\1>} changed] [zlib crc32 $changed]"
puts "zlib [expr {[zlib inflate [zlib deflate $changed 9]] eq $changed}]"
for {set n 0} {$n < 8} {incr n} {
    set child [interp create]
    $child eval {set all {}; for {set i 0} {$i < 5000} {incr i} {lappend all [string repeat $i 20]}}
    puts "interp [zlib crc32 [$child eval {join $all}]]"
    interp delete $child
}
set sum 0
set live [lrepeat 1000 {}]
for {set i 0} {$i < 150000} {incr i} {
    lset live [draw 1000] [string repeat a [draw 400]]
}
foreach item $live {incr sum [string length $item]}
puts "churn $sum"
