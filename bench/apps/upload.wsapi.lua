-- As upload.lua, for WSAPI.
return function(env)
    local total = 0
    while true do
        local part = env.input:read(65536)
        if not part or part == "" then break end
        total = total + #part
    end
    local answer = tostring(total)
    return 200, { ["Content-Type"] = "text/plain", ["Content-Length"] = tostring(#answer) }, coroutine.wrap(function()
        coroutine.yield(answer)
    end)
end
