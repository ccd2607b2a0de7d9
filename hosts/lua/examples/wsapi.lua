-- An app as WSAPI has them: the global function `run`, or a module that has one.
function run(env)
    local function body()
        coroutine.yield("You asked for " .. env.PATH_INFO .. "\n")
        coroutine.yield("with " .. env.REQUEST_METHOD .. " and the query \"" .. env.QUERY_STRING .. "\".\n")
    end
    return 200, { ["Content-Type"] = "text/plain" }, coroutine.wrap(body)
end
