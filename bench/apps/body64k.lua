-- Cell body-64k: 65536 bytes in one piece, the alphabet over and over; built once, so that only sending it is measured.
local body = ("abcdefghijklmnopqrstuvwxyz"):rep(2521):sub(1, 65536)

return function(request)
    return 200, { ["Content-Type"] = "text/plain" }, body
end
