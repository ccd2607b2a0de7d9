-- Handlers that wait, and counters of what is open.
local oribi = require "oribi"

local open, gone, stopped, reused = 0, 0, false, 0
local pages = {}

-- Waits until as many requests as the query says are open at the same time.
function pages.together(request)
    local count = tonumber(request.query)
    open = open + 1
    while open < count do oribi.sleep(0.05) end
    return "together"
end

function pages.open() return tostring(open) end
function pages.gone() return tostring(gone) end

function pages.compute()
    local sum = 0
    for number = 1, 1e6 do sum = sum + number % 7 end
    return "computed"
end

-- Computes until the test makes a file.
function pages.busy(request)
    local file
    repeat
        file = io.open(request.query)
    until file
    file:close()
    return "was busy"
end

-- Waits until the test makes a file.
function pages.hold(request)
    open = open + 1
    local ok, why = pcall(function()
        local file
        repeat
            oribi.sleep(0.01)
            file = io.open(request.query)
        until file
        file:close()
    end)
    open = open - 1
    if not ok then
        gone = gone + 1
        print("ended: " .. tostring(why))
        error(why, 0)
    end
    return "held for " .. request.path
end

-- Waits for a task that the host ends.
function pages.abandoned()
    local task = oribi.spawn(function()
        oribi.sleep(0.01)
        coroutine.yield("not a wait")
    end)
    return tostring(select(2, oribi.wait(task))) .. ";" .. tostring(select(2, oribi.wait(task)))
end

-- Asks a server, and keeps the connection whatever happens.
function pages.kept(request)
    local socket = oribi.tcp()
    assert(socket:connect("unix:" .. request.query))
    pcall(function()
        socket:send(request.path .. "\n")
        socket:receive()
    end)
    local kept = socket:setkeepalive(60, 0)
    gone = gone + 1
    return kept and "kept" or "closed"
end

function pages.stubborn()
    open = open + 1
    while true do pcall(oribi.sleep, 600) end
end

function pages.loop()
    oribi.sleep(0.001)
    while true do end
end

-- Runs for longer than the time limit of the test.
function pages.long()
    oribi.deadline(nil)
    oribi.sleep(0.001)
    local from = os.clock()
    while os.clock() - from < 0.9 do end
    return "long"
end

function pages.stream(request)
    local count = 0
    return function()
        count = count + 1
        if count > tonumber(request.query) then return nil end
        return ("x"):rep(65536)
    end
end

-- Asks a server that answers the first datagram.
function pages.datagrams(request)
    local socket = oribi.udp()
    local unconnected, closed = socket:send("too early")
    assert(socket:setpeername("127.0.0.1", request.query))
    socket:settimeout(30)
    assert(socket:send { "a ", { "question" } })
    local answer = assert(socket:receive())
    socket:settimeout(0.02)
    assert(socket:send("another"))
    local late, why = socket:receive()
    socket:close()
    return tostring(unconnected) .. " " .. closed .. ", " .. answer .. ", " .. tostring(late) .. " " .. why
end

function pages.pieces()
    local count = 0
    return function()
        count = count + 1
        if count > 3 then return nil end
        oribi.sleep(0.001)
        return "piece " .. count .. ";"
    end
end

function pages.tasks(request)
    local slow = oribi.spawn(function(word)
        oribi.sleep(0.05)
        return word .. request.path
    end, "slow")
    local fast = oribi.spawn(function() return "fast", 2 end)
    local failed = oribi.spawn(function()
        oribi.sleep(0.001)
        local missing
        return missing.field
    end)
    local ok, word, number = oribi.wait(slow, fast)
    local ok_later, later = oribi.wait(slow)
    local ok_failed, why = oribi.wait(failed)
    assert(ok and ok_later and not ok_failed and why:find("missing", 1, true), why)
    return word .. number .. later
end

function pages.inner()
    local next_number = coroutine.wrap(function()
        for number = 1, 3 do
            oribi.sleep(0.001)
            coroutine.yield(number)
        end
    end)
    local caught, why = pcall(function()
        oribi.sleep(0.001)
        error("thrown", 0)
    end)
    return next_number() .. next_number() .. next_number() .. tostring(caught) .. why
end

function pages.yields() coroutine.yield(1) end

function pages.fails()
    oribi.sleep(0.001)
    local missing
    return missing.field
end

function pages.exits()
    oribi.sleep(0.001)
    os.exit(1)
end

function pages.reads(request)
    oribi.sleep(0.001)
    return #request:read("a") .. request.method .. request.headers["x-word"]
end

function pages.background(request)
    oribi.spawn(function()
        for _ = 1, 20 do oribi.sleep(0.01) end
        print("beside " .. request.path)
    end)
    oribi.sleep(0.001)
    oribi.spawn(function()
        local ok, why = pcall(oribi.sleep, 600)
        print("sleeper: " .. tostring(why))
    end)
    oribi.spawn(function()
        assert(not oribi.stopping())
        local ok = pcall(oribi.sleep, 600)
        print("loop: " .. tostring(oribi.stopping()))
        oribi.sleep(600)
        print("never")
    end)
    return "spawned"
end

-- Spawns tasks until there is no memory for them, and some more.
function pages.crowd()
    local refused, task = 0, function() oribi.sleep(600) end
    while refused < 100 do
        if not pcall(oribi.spawn, task) then refused = refused + 1 end
    end
    return "crowded"
end

-- Reads all that a server sends.
function pages.all(request)
    local socket = oribi.tcp()
    assert(socket:connect("unix:" .. request.query))
    assert(socket:send("question"))
    local text, why, part = socket:receive("*a")
    return ("%s %s %s"):format(text, why, part)
end

-- Reads lines for as long as the peer sends some.
function pages.lines(request)
    local socket, count = oribi.tcp(), 0
    assert(socket:connect("unix:" .. request.query))
    assert(socket:send("question"))
    while socket:receive() do count = count + 1 end
    return tostring(count > 0)
end

-- Forgets to close sockets.
function pages.forgotten(request)
    local count = 0
    for _ = 1, 300 do
        collectgarbage("stop")
        if oribi.tcp():connect("127.0.0.1", request.query) then count = count + 1 end
    end
    collectgarbage("restart")
    return tostring(count)
end

-- Leaves a connection on which a task waits for another one.
function pages.replaced(request)
    local socket = oribi.tcp()
    assert(socket:connect("unix:" .. request.query))
    assert(socket:receive() == "begun")
    local reader = oribi.spawn(function() return socket:receive("*a") end)
    oribi.sleep(0)
    socket:close()
    assert(socket:connect("unix:" .. request.query))
    local line = assert(socket:receive())
    local _, text, why, part = oribi.wait(reader)
    return ("%s %s %s, %s"):format(text, why, part, line)
end

return function(request)
    local page = pages[request.path:match("^/(%a+)")]
    if not page then return 404, "no such page" end
    return page(request)
end
