-- As app.psgi.
local file = io.open("/tmp/version")
local version = file and file:read("l") or "first"

local function output(command)
    local pipe = io.popen(command)
    local text = pipe:read("*a")
    pipe:close()
    return text
end

return function(request)
    if request.path == "/orphan" then return output("sleep 1000 >/dev/null 2>&1 & echo $!") end
    if request.path == "/slow" then
        os.execute("touch /tmp/running; until [ -e /tmp/finish ]; do sleep 0.02; done")
        return "finished\n"
    end
    local size = 0
    for part in function() return request:read(65536) end do size = size + #part end
    local writable = 0
    for _, folder in ipairs { "/", "/etc", "/var/tmp", "." } do
        if io.open(folder .. "/oribi-test", "w") then writable = writable + 1 end
    end
    return ("lua %s %s %d %d\n"):format(version, output("id -u"):match("%d+"), size, writable)
end
