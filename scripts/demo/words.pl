# Which words stand how often, and beside which others.
use strict;
use warnings;

my (%count, %beside);
open my $in, '<', $ARGV[0] or die "$ARGV[0]: $!";
while (my $line = <$in>) {
    last if $. > 180000;
    my ($number, @words) = split ' ', $line;
    for my $i (0 .. $#words) {
        $count{ $words[$i] }++;
        $beside{ $words[$i] }{ $words[ $i - 1 ] }++ if $i;
    }
}
for my $word (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count) {
    my $near = $beside{$word} || {};
    print "$word $count{$word} ", join(",", map { "$_=$near->{$_}" } sort keys %$near), "\n";
}
