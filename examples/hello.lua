-- The smallest Lua app: a function that is given a request and returns a status, fields and a body.
--
--     oribi examples/hello.lua

return function(request)
    return 200, { ["Content-Type"] = "text/plain; charset=utf-8" }, "Hello from Oribi, " .. request.remote_address .. "\n"
end
