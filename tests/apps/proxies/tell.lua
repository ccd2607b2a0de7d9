-- Answers with the variables about its client.
return function(request)
    local variables, told, fields = request.variables, {}, {}
    for _, key in ipairs { "REMOTE_ADDR", "REMOTE_PORT", "scheme", "HTTPS", "HTTP_HOST", "SERVER_PORT" } do
        told[#told + 1] = key == "scheme" and request.scheme or variables[key] or "-"
    end
    for name in pairs(variables) do
        if name:match("^HTTP_X_FORWARDED") or name:match("^HTTP_X_REAL_IP") or name:match("^HTTP_FORWARDED") then
            fields[#fields + 1] = name
        end
    end
    table.sort(fields)
    return 200, { ["Content-Type"] = "text/plain" }, table.concat(told, " ") .. " " .. table.concat(fields, ",") .. "\n"
end
