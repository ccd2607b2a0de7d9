-- Cell upload-1m: reads the whole content, as an app that stores it would, and answers how many bytes it was.
return function(request)
    local total = 0
    for part in function() return request:read(65536) end do total = total + #part end
    return 200, { ["Content-Type"] = "text/plain" }, tostring(total)
end
