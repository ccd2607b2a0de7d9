-- Wraps the hooks around the handler. The host runs this once in each state, if there are hooks.
local load, request, response, flush = ...
local select, unpack = select, table.unpack or unpack

-- The results of a hook, unless the first is nil: then the earlier results.
local function either(before, ...)
    if (...) ~= nil then return ... end
    return unpack(before, 1, before.n)
end

-- Calls the response hook with the handler's arguments and then its results.
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
