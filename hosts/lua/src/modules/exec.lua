-- The function `oribi.exec`, which runs a process and waits for its end.
local oribi, core, kinds, wait = ...
local error, next, type, tostring, min, max = error, next, type, tostring, math.min, math.max
local READ, SLEEP = kinds.read, kinds.sleep
local now, start, guard, blocks = core.now, core.start, core.guard, core.blocks

-- The pause between two looks where no descriptor says that a process has ended; the longest wait that blocks, so that a time
-- limit can end the script; and the longest wait for a process that was killed.
local PAUSE, SLICE, KILLED = 0.02, 0.5, 1

local OPTIONS = { stdin = "string", environment = "table", directory = "string", timeout = "number", max_output = "number" }

local function check(options)
    for name, value in next, options do
        local kind = OPTIONS[name]
        if not kind then error("bad argument #2 to 'exec' (no option " .. tostring(name) .. ")", 3) end
        if type(value) ~= kind then error("bad argument #2 to 'exec' (" .. name .. " must be a " .. kind .. ")", 3) end
    end
    local most = options.max_output
    if most and not (most >= 0 and most % 1 == 0) then
        error("bad argument #2 to 'exec' (max_output must be a number of bytes)", 3)
    end
end

local function pause(process, left)
    if blocks then left = min(left or SLICE, SLICE) end
    local descriptor = process:descriptor()
    if descriptor then return wait(READ, descriptor, left) end
    wait(SLEEP, min(left or PAUSE, PAUSE))
end

-- Returns nil when the process has ended, otherwise a message.
local function follow(process, deadline)
    while not process:advance() do
        local left = deadline and deadline - now()
        if left and left <= 0 then return "timeout" end
        pause(process, left)
    end
    return process:too_much() and "too much output" or nil
end

-- exec({ program, argument, ... }, options): returns a table with `status` or `signal`, `stdout` and `stderr`; or nil, a message
-- and, if the process was killed, that table.
function oribi.exec(command, options)
    if type(command) ~= "table" or type(command[1]) ~= "string" then
        error("bad argument #1 to 'exec' (a list of a program and its arguments expected)", 2)
    end
    if options == nil then options = {} end
    if type(options) ~= "table" then error("bad argument #2 to 'exec' (a table of options expected)", 2) end
    check(options)
    local process, why = start(command, options)
    if not process then return nil, why end
    local ok, failure = guard(follow, process, options.timeout and now() + max(options.timeout, 0))
    if ok and not failure then return process:result() end
    process:kill()
    local broken = failure
    if ok then ok, broken = guard(follow, process, now() + KILLED) end
    if ok then return nil, failure, process:result() end
    process:abandon()
    error(broken, 0)
end
