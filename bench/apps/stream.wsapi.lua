-- As stream.lua, for WSAPI.
local pieces = {}
for letter in ("abcdefghijklmnop"):gmatch(".") do pieces[#pieces + 1] = letter:rep(1024) end

local function body()
    for _, piece in ipairs(pieces) do coroutine.yield(piece) end
end

return function(env)
    return 200, { ["Content-Type"] = "text/plain" }, coroutine.wrap(body)
end
