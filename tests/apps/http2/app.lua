-- Answers for clients of HTTP/2: text about the request, content of any size, whole or in pieces, and an app that takes long.
local ffi = require "ffi"
ffi.cdef "int poll(void *, unsigned long, int);"

local megabytes = ("x"):rep(2000000)
local text = { ["Content-Type"] = "text/plain" }

return function(request)
    local variables = request.variables
    local path = variables.PATH_INFO
    if path == "/large" then return 200, text, megabytes end
    if path == "/pieces" then
        local left = 50
        return 200, text, function()
            left = left - 1
            return left >= 0 and ("y"):rep(20000) or nil
        end
    end
    if path == "/slow" then
        ffi.C.poll(nil, 0, 2000)
        return 200, {}, "slow\n"
    end
    local told = {}
    for _, name in ipairs { "REQUEST_METHOD", "REQUEST_URI", "SERVER_PROTOCOL", "HTTP_HOST", "HTTP_COOKIE" } do
        told[#told + 1] = name .. "=" .. (variables[name] or "")
    end
    told[#told + 1] = "size=" .. #(request:read("a") or "") .. "\n"
    return 200, text, table.concat(told, "\n")
end
