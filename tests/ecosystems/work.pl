# The program of docs/preload.md: stands for one that is installed. Without arguments a job whose result is printed: strings are
# kept in lists, and made anew. With a number it holds so many MiB of strings, prints "ready PID", and waits for its input to end.
use strict;
use warnings;

$| = 1;
if (@ARGV) {
    my @held = map { "x" x 65000 } 1 .. $ARGV[-1] * 16;
    print "ready $$\n";
    1 while <STDIN>;
    exit;
}
my %lists;
for my $i (1 .. 600_000) {
    my $list = $lists{$i % 20_000} //= [];
    shift @$list if @$list == 12;
    push @$list, "x" x ($i % 300);
}
print "job ", scalar keys %lists, " lists\n";
