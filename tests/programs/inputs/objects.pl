# Hashes, regular expressions, growing strings, forks and interpreter threads.
use strict;
use warnings;
use threads;
use Digest::SHA qw(sha256_hex);

my $seed = 42;
sub draw { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return $seed >> 8; }

my %count;
$count{"key" . (draw() % 40000)} += draw() % 10 for 1 .. 150000;
my $lines = join "\n", map { sprintf "%-12s %8d %s", $_, $count{$_}, "=" x ($count{$_} % 60) }
    sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "hash ", scalar(keys %count), " ", sha256_hex($lines), "\n";

my $changes = ($lines =~ s/key(\d+)(\d)/$2-$1/g);
print "regex $changes ", sha256_hex($lines), "\n";

my $text = "";
$text .= chr(65 + $_ % 26) x (draw() % 40) for 1 .. 100000;
print "string ", length($text), " ", sha256_hex($text), "\n";
my @parts = split /[AEIOU]+/, $text;
print "split ", scalar(@parts), " ", sha256_hex(join ",", reverse @parts), "\n";

my @tree;
push @{ $tree[ draw() % 500 ] }, { id => $_, data => [ 1 .. draw() % 20 ] } for 1 .. 30000;
my $sum = 0;
for my $list (@tree) { $sum += @{ $_->{data} } * $_->{id} for @{ $list || [] } }
print "tree $sum\n";
@tree = ();

for my $n (1 .. 4) {
    my $pid = open(my $from, "-|") // die "fork: $!";
    if (!$pid) {
        my @blocks = map { chr($_ % 256) x ($_ * $n % 3000) } 1 .. 4000;
        print sha256_hex(join "", @blocks), "\n";
        exit 0;
    }
    print "child $n ", <$from>;
    close $from or die "child: $?";
}

my @threads = map {
    my $n = $_;
    threads->create(sub {
        my %local = map { $_ => "v" x ($_ * $n % 200) } 1 .. 8000;
        return sha256_hex(join "", map { $local{$_} } sort keys %local);
    });
} 1 .. 4;
print "thread ", $_->join, "\n" for @threads;
