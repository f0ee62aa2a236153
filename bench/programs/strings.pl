# Strings that grow, regular expressions that cut them up, and lists of lists.
use strict;
use warnings;

my $seed = 42;
sub draw { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return $seed >> 8; }

my $sum = 0;
for my $round (1 .. 4) {
    my $text = "";
    $text .= chr(65 + $_ % 26) x (draw() % 40) . " " for 1 .. 60000;
    (my $changed = $text) =~ s/([A-Z])\1+ ([AEIOU])/lc($1) . length($&) . $2/ge;
    my @parts = split /[AEIOU]+/, $changed;
    my %by_length;
    push @{ $by_length{ length $_ } }, $_ for @parts;
    $sum += $_ * @{ $by_length{$_} } for keys %by_length;
    my @rows = map { [ $_, "row" . draw() % 9999, [ 1 .. draw() % 12 ] ] } 1 .. 40000;
    $sum += $_->[0] * @{ $_->[2] } for sort { $a->[1] cmp $b->[1] || $a->[0] <=> $b->[0] } @rows;
}
print "$sum\n";
