-- Binary trees that live long beside many that do not, and a table of strings that is overwritten.
local function tree(depth)
  if depth == 0 then return { false, false } end
  return { tree(depth - 1), tree(depth - 1) }
end

local function count(node)
  return node[1] and 1 + count(node[1]) + count(node[2]) or 1
end

local long = tree(17)
for depth = 4, 16, 4 do
  local trees, total = 1 << (17 - depth), 0
  for _ = 1, trees do total = total + count(tree(depth)) end
  print(depth, trees, total)
end
print("long", count(long))

local words, seed, length = {}, 1, 0
for i = 1, tonumber(arg[1] or 1000000) do
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  words[(seed >> 8) % 60000] = string.rep(string.char(97 + i % 26), 20 + (seed >> 12) % 200)
end
for _, word in pairs(words) do length = length + #word end
print("words", length)
