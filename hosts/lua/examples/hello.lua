-- An app in Oribi's own style: `oribi hello.lua`, then http://127.0.0.1:5000/?name=you
return function(request)
    return 200, { ["Content-Type"] = "text/plain; charset=utf-8" }, "Hello World\n"
end
