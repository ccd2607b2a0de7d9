-- Puts the hooks around what answers requests. The host runs this once in each state, if there are hooks.
local load, request, response, flush = ...
local select, unpack = select, table.unpack or unpack

-- What a hook has returned, unless that begins with nil: then what there was before.
local function either(before, ...)
    if (...) ~= nil then return ... end
    return unpack(before, 1, before.n)
end

-- Calls the response hook with what the handler was called with, and then what it has returned.
local function respond(arguments, ...)
    local count, results = arguments.n, { n = select("#", ...), ... }
    for index = 1, results.n do arguments[count + index] = results[index] end
    return either(results, response(unpack(arguments, 1, count + results.n)))
end

local function handle(handler, arguments, ...)
    -- A request hook that returns something has answered.
    if (...) ~= nil then return ... end
    return handler(unpack(arguments, 1, arguments.n))
end

local function wrap_handler(handler, script)
    if load then load(script) end
    if not request and not response then return handler end
    return function(...)
        local arguments = { n = select("#", ...), ... }
        if not response then return handle(handler, arguments, request(...)) end
        if not request then return respond(arguments, handler(...)) end
        return respond(arguments, handle(handler, arguments, request(...)))
    end
end

local function wrap_flush(methods)
    if not flush then return end
    local send = methods.flush
    function methods.flush(con)
        flush(con)
        return send(con)
    end
end

return wrap_handler, wrap_flush
