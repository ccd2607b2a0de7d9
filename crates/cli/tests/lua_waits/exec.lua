-- Runs programs.
local oribi = require "oribi"

local pages = {}
local gone = 0

local function shown(result, why, partial)
    local found = result or partial or {}
    local parts = { why or "ok", tostring(found.status), tostring(found.signal), found.stdout or "", found.stderr or "" }
    return table.concat(parts, "|")
end

function pages.basics()
    local lines = {}
    local function add(...) lines[#lines + 1] = shown(oribi.exec(...)) end
    add({ "sh", "-c", "echo out; echo err >&2; exit 3" })
    add({ "sh", "-c", "kill -15 $$" })
    add({ "printf", "%s,", "a b", "$HOME;`c`" })
    add({ "cat" }, { stdin = "word" })
    add({ "cat" })
    add({ "true" }, { stdin = ("x"):rep(300000) })
    add({ "pwd" }, { directory = "/" })
    add({ "/usr/bin/env" }, { environment = { ONLY = "this" } })
    add({ "no-such-program" })
    add({ "true" }, { directory = "/no/such/directory" })
    add({ "sh", "-c", "echo begun; sleep 600 & sleep 600" }, { timeout = 0.1 })
    add({ "sh", "-c", "exec 2>&-; while :; do echo xxxxxxxxx; done" }, { max_output = 20 })
    add({ "perl", "-e", "setpgrp(0, getpgrp(getppid())); sleep 600" }, { timeout = 0.3 })
    return table.concat(lines, "\n")
end

function pages.large()
    local text = ("0123456789"):rep(60000)
    local result = assert(oribi.exec({ "cat" }, { stdin = text }))
    return tostring(result.stdout == text and result.status == 0)
end

function pages.misused()
    local words = {}
    for _, arguments in ipairs { { "ls" }, { {} }, { { "ls" }, { std = "x" } }, { { "ls" }, { stdin = 1 } }, { { "ls" }, { max_output = -1 } } } do
        local ok, why = pcall(oribi.exec, arguments[1], arguments[2])
        words[#words + 1] = tostring(ok) .. " " .. tostring(why):match("%((.*)%)")
    end
    return table.concat(words, "\n")
end

function pages.descriptors() return assert(oribi.exec { "sh", "-c", "n=0; while [ $n -lt 300 ]; do [ -e /proc/$$/fd/$n ] && echo $n; n=$((n+1)); done; true" }).stdout end

-- The number of descriptors that the worker has more than before, though Lua has not collected anything.
function pages.left()
    local function count() return tonumber(oribi.exec({ "sh", "-c", "ls /proc/$PPID/fd | wc -l" }).stdout) end
    local before = count()
    collectgarbage("stop")
    for _ = 1, 5 do
        oribi.exec { "true" }
        oribi.exec({ "sleep", "600" }, { timeout = 0.01 })
        oribi.exec({ "yes" }, { max_output = 20 })
        oribi.tcp():connect("localhost", 1)
    end
    local left
    for _ = 1, 200 do
        left = count() - before
        if left <= 0 then break end
        -- A thread that has looked up a name may not have ended.
        oribi.sleep(0.02)
    end
    collectgarbage("restart")
    return tostring(math.max(left, 0))
end

function pages.signals() return assert(oribi.exec { "grep", "-hE", "^Sig(Blk|Ign)", "/proc/self/status" }).stdout end

-- A process of which the test learns the number, and one that it has started.
function pages.hold()
    local ok, why = pcall(oribi.exec, { "sh", "-c", "sleep 600 & echo $$ $! > pids.new && mv pids.new pids; wait" })
    gone = gone + 1
    error(why, 0)
end

function pages.background()
    oribi.spawn(pages.hold)
    return "spawned"
end

function pages.leaves() return shown(oribi.exec { "sh", "-c", "sleep 600 & echo $$ $! > pids.new && mv pids.new pids" }) end
function pages.gone() return tostring(gone) end

function pages.beside()
    local tasks = {}
    for number = 1, 10 do
        tasks[number] = oribi.spawn(function() return oribi.exec({ "sh", "-c", "until [ -e go ]; do sleep 0.01; done; echo " .. number }).stdout end)
    end
    local words = {}
    for number = 1, 10 do words[number] = select(2, oribi.wait(tasks[number])):gsub("\n", "") end
    return table.concat(words, " ")
end

return function(request)
    return pages[request.path:match("^/(%a+)")](request)
end
