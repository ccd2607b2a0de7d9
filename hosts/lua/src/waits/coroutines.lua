-- Runs handlers in coroutines that may wait, with `--concurrency`. The host runs this in every new state.
local WAIT, block, is_full, kinds = ...
local yield, create, resume = coroutine.yield, coroutine.create, coroutine.resume
local error, setmetatable = error, setmetatable
local ROOM = kinds.room

-- Before the first request, as while the script is loaded, the code runs in no coroutine of the host: then it blocks.
local started = false

-- The errors of waits that cannot go on. They are tables, so that code can tell them from others.
local Ended = { __tostring = function(it) return it.reason end }
local endings = {
    setmetatable({ reason = "the client has gone" }, Ended),
    setmetatable({ reason = "the worker ends" }, Ended),
    setmetatable({ reason = "not enough memory for a task" }, Ended),
}

local function check(ending, ...)
    if ending then error(endings[ending] or ending, 0) end
    return ...
end

local function wait(kind, ...)
    if not started then return block(kind, ...) end
    return check(yield(WAIT, kind, ...))
end

-- A wait within a coroutine of the script is one of all coroutines around it: each passes the wait outwards and its end
-- inwards.
local function pass(thread, ok, first, ...)
    if ok and first == WAIT then return pass(thread, resume(thread, yield(WAIT, ...))) end
    return ok, first, ...
end

function coroutine.resume(thread, ...)
    return pass(thread, resume(thread, ...))
end

local function unwrap(ok, ...)
    if not ok then error((...), 0) end
    return ...
end

-- Lua 5.4 has a wrapper already, which resumes by the function above.
if kinds.wraps then
    function coroutine.wrap(body)
        local thread = create(body)
        return function(...)
            return unwrap(coroutine.resume(thread, ...))
        end
    end
end

-- Sends the pieces of a body, and waits for the client in between.
local function pump(send, iterator)
    if iterator == nil then return end
    repeat
        local more = send(iterator())
        if is_full() then wait(ROOM) end
    until not more
end

-- Makes the function that answers requests.
local function server(handler, arguments, answer, send)
    return function()
        started = true
        return pump(send, answer(handler(arguments())))
    end
end

-- Makes methods of luafcgid's `con` wait for a slow client.
local function patient(methods)
    for _, name in ipairs { "puts", "flush" } do
        local send = methods[name]
        methods[name] = function(...)
            send(...)
            if is_full() then wait(ROOM) end
        end
    end
end

return wait, server, patient, Ended
