# Which words stand how often, and beside which others: words.pl FILE LINES.
use strict;
use warnings;

my (%count, %beside);
my ($name, $most) = @ARGV;
open my $in, '<', $name or die "$name: $!";
while (my $line = <$in>) {
    last if $. > $most;
    my ($number, @words) = split ' ', $line;
    for my $i (0 .. $#words) {
        $count{ $words[$i] }++;
        $beside{ $words[$i] }{ $words[ $i - 1 ] }++ if $i;
    }
}
my $pairs = 0;
$pairs += keys %$_ for values %beside;
my @common = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print scalar(@common), " words, $pairs pairs\n";
for my $word (@common[0 .. 20]) {
    my $near = $beside{$word} || {};
    print "$word $count{$word} ", join(",", map { "$_=$near->{$_}" } sort keys %$near), "\n";
}
