-- Cell stream: 16 pieces of 1 KiB (a letter each, 'a' to 'p'), given one by one, no Content-Length: a server must frame them.
local pieces = {}
for letter in ("abcdefghijklmnop"):gmatch(".") do pieces[#pieces + 1] = letter:rep(1024) end

return function(request)
    local number = 0
    return 200, { ["Content-Type"] = "text/plain" }, function()
        number = number + 1
        return pieces[number]
    end
end
