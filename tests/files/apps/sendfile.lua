-- Names the file in the query: /sendfile or /accel, or /stream for the first, piece by piece.
local field_of = { ["/sendfile"] = "X-Sendfile", ["/stream"] = "X-Sendfile", ["/accel"] = "X-Accel-Redirect" }

return function(request)
    local field = field_of[request.path]
    if not field then
        return 200, { ["Content-Type"] = "text/plain" }, "app\n"
    end
    local fields = { ["Content-Type"] = "text/x-own", ["Set-Cookie"] = "a=1", [field] = request.query }
    if request.path == "/stream" then
        return 200, fields, coroutine.wrap(function()
            coroutine.yield("not ")
            coroutine.yield("wanted")
        end)
    end
    return 200, fields, "not wanted"
end
