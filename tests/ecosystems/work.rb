# ruby work.rb                       a job: the same output on every allocator
# ruby work.rb strings|objects MIB   holds memory of one kind until standard input ends
require 'digest'
require 'json'

# An object that fits into its slot of 40 bytes.
class Link
  def initialize(rest) = @rest = rest
end

def hold(kind, mib)
  kept = nil
  kept = Array.new(mib * 256) { 'x' * 4000 } if kind == 'strings'
  (mib * 26_214).times { kept = Link.new(kept) } if kind == 'objects'
  puts "ready #{Process.pid}"
  $stdout.flush
  $stdin.read
  exit(mib.zero? || !kept.nil?)
end

# Rows as a web application has them: parsed, changed, written, thrown away.
def job
  digest = Digest::SHA256.new
  first = Array.new(4000) do |i|
    { id: i, name: "user#{i * 7919 % 5003}", tags: ["t#{i % 40}", 'x' * (i % 90)] }
  end
  text = JSON.generate(first)
  70.times do |n|
    rows = JSON.parse(text)
    rows.each { |row| row['name'] = "#{row['name']}-#{n}-#{row['tags'].last}" }
    groups = rows.group_by { |row| row['id'] % 97 }
    lines = groups.map { |key, list| "#{key}: #{list.map { |row| row['name'].upcase }.join(',')}" }
    digest << lines.join("\n").gsub(/USER(\d+)/) { Regexp.last_match(1).reverse }
  end
  puts "job #{digest.hexdigest}"
end

ARGV.size == 2 ? hold(ARGV[0], ARGV[1].to_i) : job
