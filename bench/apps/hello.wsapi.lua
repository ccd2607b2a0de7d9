-- As hello.lua, for WSAPI. A body is a coroutine: uWSGI asks it until it is dead.
local function body()
    coroutine.yield("Hello World")
end

return function(env)
    return 200, { ["Content-Type"] = "text/plain", ["Content-Length"] = "11" }, coroutine.wrap(body)
end
