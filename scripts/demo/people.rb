# Parses the document, groups and rewrites it.
require 'json'

people = JSON.parse(File.read(ARGV[0]))['people']
by_name = people.group_by { |p| p['name'][0, 2] }
by_name.sort.each do |letters, list|
  notes = list.map { |p| p['note'].split.map(&:capitalize).join('-') }
  puts [letters, list.size, list.sum { |p| p['balance'] }.round, notes.map(&:size).sum, notes.max].join(' ')
end
puts JSON.generate(people.map { |p| p.merge('tags' => p['tags'].sort, 'key' => "#{p['id']}/#{p['name']}") })
