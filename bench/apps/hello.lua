-- Cells keep-alive, short and pipelined: the smallest complete answer, 11 bytes.
return function(request)
    return 200, { ["Content-Type"] = "text/plain" }, "Hello World"
end
