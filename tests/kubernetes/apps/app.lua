-- Answers each request with its path, this version of the app, the pod, and the content that was sent or requested.
local function first_line(path)
    local file = assert(io.open(path))
    local line = file:read("l")
    file:close()
    return line
end

local version = first_line("/srv/version")
local pod = first_line("/etc/hostname")

return function(request)
    local content = request:read("a")
    local more = request.query:match("^more=(%d+)$")
    if more then content = ("x"):rep(tonumber(more)) end
    return 200, { ["Content-Type"] = "text/plain" }, { ("%s %s %s %d\n"):format(request.path, version, pod, #content), content }
end
