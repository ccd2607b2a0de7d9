-- Changes to Lua's own libraries that are easier to write in Lua. The host runs this in every new state.
local note, directory, deadline, stopping, enter, left = ...
local package, original_loadfile, original_dofile = package, loadfile, dofile
local searchpath, error, type = package.searchpath, error, type

-- The host must know which files a script was loaded from, to reload it when one of them changes.
function loadfile(file, ...)
    if type(file) == "string" then note(file) end
    return original_loadfile(file, ...)
end

function dofile(file)
    if type(file) == "string" then note(file) end
    return original_dofile(file)
end

-- A script finds files beside it by this directory, not by the server's working directory.
local open_oribi = package.preload.oribi
function package.preload.oribi(...)
    local oribi = open_oribi(...)
    oribi.directory, oribi.deadline = directory, deadline
    return oribi
end

-- WSAPI's package has a module of this name, with data from connectors, above all the app's directory.
function package.preload.wsapi()
    local file = searchpath("wsapi", package.path)
    local wsapi = file and original_dofile(file) or {}
    wsapi.app_path = wsapi.app_path or directory
    return wsapi
end

local searchers = package.searchers or package.loaders
searchers[2] = function(name)
    local file, tried = searchpath(name, package.path)
    if not file then return tried end
    note(file)
    local chunk, message = original_loadfile(file)
    if not chunk then
        error("module '" .. name .. "' cannot be loaded from '" .. file .. "':\n\t" .. message, 0)
    end
    return chunk, file
end

-- If hooks belong to single coroutines, the code that stops a script must know which one runs.
if enter then
    local create, resume, close, status = coroutine.create, coroutine.resume, coroutine.close, coroutine.status
    function coroutine.resume(thread, ...)
        return left(resume(enter(thread), ...))
    end
    function coroutine.close(thread)
        return left(close(enter(thread)))
    end
    local function pass(thread, ok, ...)
        if ok then return ... end
        local message = ...
        if status(thread) == "dead" then coroutine.close(thread) end
        error(message, 0)
    end
    function coroutine.wrap(body)
        local thread = create(body)
        return function(...)
            return pass(thread, coroutine.resume(thread, ...))
        end
    end
end

-- A message handler runs where the error was raised. If a hook raised it to stop the script, no hooks are called within the
-- handler, so nothing could stop the handler.
local original_xpcall, traceback = xpcall, debug.traceback
function xpcall(body, handler, ...)
    local guarded = handler
    if handler ~= traceback and type(handler) == "function" then
        function guarded(message)
            if stopping() then return message end
            return handler(message)
        end
    end
    return original_xpcall(body, guarded, ...)
end
