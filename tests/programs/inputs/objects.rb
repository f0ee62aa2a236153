# Objects, strings that grow, garbage collection under pressure, threads and forks.
require 'digest'
require 'json'

def digest(text) = Digest::SHA256.hexdigest(text)[0, 16]

$seed = 7
def draw
  $seed = ($seed * 1103515245 + 12345) & 0x7fffffff
  $seed >> 8
end

Row = Struct.new(:id, :name, :tags)
rows = Array.new(40_000) { |i| Row.new(i, "user#{draw % 9999}", Array.new(draw % 5) { "t#{draw % 40}" }) }
groups = rows.group_by(&:name).transform_values { |list| list.sum(&:id) }
puts "groups #{groups.size} #{digest(groups.sort.inspect)}"

text = JSON.generate(rows.map(&:to_h))
raise 'json' unless JSON.parse(text).size == rows.size
puts "json #{text.size} #{digest(text)}"
puts "gsub #{digest(text.gsub(/user(\d+)/) { $1.reverse })}"
puts "marshal #{Marshal.load(Marshal.dump(rows)) == rows}"

grown = +''
60_000.times { |i| grown << (65 + i % 26).chr * (draw % 60) }
puts "string #{grown.size} #{digest(grown)}"

5.times { Array.new(40_000) { |i| 'x' * (i % 500) } }
GC.start
puts "bignum #{digest((3**8000).to_s)}"

threads = Array.new(6) do |n|
  Thread.new { digest(Array.new(6_000) { |i| ('a'.ord + n).chr * (i % 300) }.join) }
end
threads.each { |thread| puts "thread #{thread.value}" }

4.times do |n|
  reader, writer = IO.pipe
  child = fork do
    reader.close
    writer.write(digest(Array.new(5_000) { |i| (i * n).to_s * 20 }.join))
    writer.close
    exit!(0)
  end
  writer.close
  puts "fork #{reader.read} #{Process.wait2(child)[1].exitstatus}"
end
