-- An app that falls ill on demand, to see each illness in the server's figures (docs/observe.md, "From a symptom to the
-- cause"). sick.psgi describes the paths.
--
--     oribi examples/sick.lua --workers 2 --metrics 9090 --dashboard on

-- Kept values live as long as this state; each thread of a worker has one.
local kept = {}
local plain = { ["Content-Type"] = "text/plain" }

-- The default of the number after a question mark, and its maximum.
local numbers = { ["/slow"] = { 2, 60 }, ["/busy"] = { 0.5, 60 }, ["/leak"] = { 8, 64 }, ["/large"] = { 32, 256 } }

local answers = {}

answers["/"] = function() return 200, plain, "well\n" end

answers["/slow"] = function(seconds)
    os.execute("sleep " .. seconds)
    return 200, plain, ("slept for %s seconds\n"):format(seconds)
end

answers["/busy"] = function(seconds)
    local finish = os.clock() + seconds
    while os.clock() < finish do end
    return 200, plain, ("computed for %s seconds\n"):format(seconds)
end

answers["/leak"] = function(mebibytes)
    kept[#kept + 1] = ("\1"):rep(math.floor(mebibytes * 1048576) + #kept)
    return 200, plain, ("kept %d pieces\n"):format(#kept)
end

answers["/large"] = function(mebibytes)
    local sent, piece = 0, ("\1"):rep(1048576)
    return 200, { ["Content-Type"] = "application/octet-stream" }, function()
        sent = sent + 1
        if sent <= mebibytes then return piece end
    end
end

answers["/fail"] = function() return 500, plain, "failed\n" end

-- The shell's parent is the worker.
answers["/die"] = function()
    os.execute("kill -KILL $PPID")
    return 500, plain, "alive\n"
end

answers["/stuck"] = function()
    while true do os.execute("sleep 60") end
end

return function(request)
    local answer = answers[request.path]
    if not answer then return 404, plain, ("There is no %s.\n"):format(request.path) end
    local bounds = numbers[request.path] or {}
    local number = (request.query or ""):match("^%d+%.?%d*$")
    return answer(bounds[1] and math.min(tonumber(number) or bounds[1], bounds[2]))
end
