-- As body64k.lua, for WSAPI.
local text = ("abcdefghijklmnopqrstuvwxyz"):rep(2521):sub(1, 65536)

local function body()
    coroutine.yield(text)
end

return function(env)
    return 200, { ["Content-Type"] = "text/plain", ["Content-Length"] = "65536" }, coroutine.wrap(body)
end
