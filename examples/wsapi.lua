-- A WSAPI app: run(env) returns a status, headers and an iterator.
--
--     oribi examples/wsapi.lua

local app = {}

function app.run(env)
    local lines = coroutine.wrap(function()
        coroutine.yield("Hello from " .. env.SERVER_SOFTWARE .. "\n")
        coroutine.yield("You have asked for " .. env.PATH_INFO .. "\n")
    end)
    return 200, { ["Content-Type"] = "text/plain" }, lines
end

return app
