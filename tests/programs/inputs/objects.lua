-- Tables, strings, closures and coroutines; Lua reallocates for every growth of a table.
local seed = 11
local function draw(n)
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  return (seed >> 8) % n
end

local function checksum(text)
  local h = 5381
  for i = 1, #text do h = (h * 33 + text:byte(i)) & 0xffffffff end
  return h
end

local rows = {}
for i = 1, 60000 do
  rows[i] = { id = i, name = "user" .. draw(5000), data = string.rep("x", draw(200)) }
end
table.sort(rows, function(a, b)
  if a.name ~= b.name then return a.name < b.name end
  return a.id < b.id
end)
local names = {}
for i, row in ipairs(rows) do names[i] = row.name .. #row.data end
print("sort", checksum(table.concat(names, ",")))

local text = table.concat(names, " ")
print("gsub", checksum((text:gsub("user(%d+)", function(n) return n:reverse() end))))

local live = {}
for i = 1, 400000 do
  live[draw(3000)] = { string.rep(string.char(65 + i % 26), draw(120)), i }
end
local total = 0
for _, entry in pairs(live) do total = total + #entry[1] + entry[2] end
print("churn", total)

local function walk(depth)
  if depth == 0 then coroutine.yield(collectgarbage("count") > 0 and 1 or 0) return end
  walk(depth - 1)
  walk(depth - 1)
end
local visits = 0
for n in coroutine.wrap(function() walk(14) end) do visits = visits + n end
print("coroutine", visits)
rows, live = nil, nil
collectgarbage()
