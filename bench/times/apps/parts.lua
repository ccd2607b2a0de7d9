-- The same as parts.psgi.

local ffi = require "ffi"
ffi.cdef "int usleep(unsigned microseconds);"

local plain = { ["Content-Type"] = "text/plain" }
local piece = ("x"):rep(10000)

return function(request)
    if request.path == "/slow" then
        ffi.C.usleep(20000)
        return 200, plain, "slow\n"
    end
    local left = 5
    return 200, plain, function()
        if left == 0 then return nil end
        left = left - 1
        ffi.C.usleep(2000)
        return piece
    end
end
