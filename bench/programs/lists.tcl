# Dictionaries, lists and strings.
set seed 3
proc draw {n} {
    global seed
    set seed [expr {($seed * 1103515245 + 12345) & 0x7fffffff}]
    return [expr {($seed >> 8) % $n}]
}
for {set round 0} {$round < 4} {incr round} {
    set table [dict create]
    for {set i 0} {$i < 100000} {incr i} {
        dict lappend table key[draw 4000] [string repeat x [draw 60]]
    }
    set lines {}
    foreach key [lsort [dict keys $table]] {
        lappend lines "$key [llength [dict get $table $key]] [string length [dict get $table $key]]"
    }
    set text [join $lines ,]
    puts "[dict size $table] [regsub -all {key(\d+)} $text {<\1>} changed] [zlib crc32 $changed]"
    set sum 0
    set live [lrepeat 1000 {}]
    for {set i 0} {$i < 250000} {incr i} {
        lset live [draw 1000] [string repeat a [draw 400]]
    }
    foreach item $live {incr sum [string length $item]}
    puts "churn $sum"
}
