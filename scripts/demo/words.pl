# Which words stand how often, and beside which others: words.pl FILE [LINES].
use strict;
use warnings;

my (%count, %beside);
my ($name, $most) = (@ARGV, 180000);
open my $in, '<', $name or die "$name: $!";
while (my $line = <$in>) {
    last if $. > $most;
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
