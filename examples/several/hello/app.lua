-- The app for all other paths of several apps in one server: see ../oribi.toml.

return function(request)
    return 200, { ["Content-Type"] = "text/plain; charset=utf-8" }, "Hello, " .. request.path .. "\n"
end
