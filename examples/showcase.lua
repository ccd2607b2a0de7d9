-- What a Lua app can do without a framework: forms, uploads, cookies, JSON, a stream, errors, and what it keeps in its state.
--
--     oribi examples/showcase.lua -E development
--
-- then open http://127.0.0.1:5000/

local oribi = require "oribi"

-- All code outside of the function runs once, when the script is loaded. Each state has its own.
local answered = 0

local page = [[<!DOCTYPE html>
<title>Oribi</title>
<h1>Oribi</h1>
<p>%s; this state has answered %d requests, and you have been here %d times.</p>
<form action="/upload" method="post" enctype="multipart/form-data">
<p><input name="name" placeholder="Your name"> <input type="file" name="file"> <button>Upload</button></p>
</form>
<ul>
<li><a href="/request?a=1&amp;a=2">the request</a> as JSON
<li><a href="/stream">a stream</a>, line by line
<li><a href="/redirect">somewhere else</a>
<li><a href="/error">an error</a>, which -E development shows
<li><a href="/missing">something</a> that is not there
</ul>
]]

local html = { ["Content-Type"] = "text/html; charset=utf-8" }
local json = { ["Content-Type"] = "application/json" }

local answers = {}

answers["/"] = function(request)
    local visits = (tonumber(oribi.parse_cookies(request.headers.cookie).visits) or 0) + 1
    local fields = {
        ["Content-Type"] = html["Content-Type"],
        ["Set-Cookie"] = oribi.set_cookie("visits", tostring(visits), { path = "/", http_only = true, same_site = "Lax" }),
    }
    return 200, fields, page:format(oribi.escape_html(jit and jit.version or _VERSION), answered, visits)
end

answers["/request"] = function(request)
    local values, all = oribi.parse_form(request.query)
    return 200, json, oribi.json.encode {
        method = request.method, path = request.path, headers = request.headers, values = values, all = all,
    }
end

answers["/upload"] = function(request)
    if request.method ~= "POST" then return 405, { Allow = "POST" } end
    local parts, values = oribi.parse_multipart(request:read("a"), request.content_type)
    -- If the content is not a form, the second value is the reason.
    if not parts then return 400, values end
    local lines = { "Thank you, ", oribi.escape_html(values.name or "whoever you are"), ".<ul>\n" }
    for _, part in ipairs(parts) do
        if part.filename then
            lines[#lines + 1] = ("<li>%s: %d bytes\n"):format(oribi.escape_html(part.filename), #part.content)
        end
    end
    lines[#lines + 1] = "</ul>\n"
    return 200, html, lines
end

answers["/stream"] = function()
    local line = 0
    -- Each piece is sent as soon as it is there.
    return 200, { ["Content-Type"] = "text/plain" }, function()
        line = line + 1
        if line <= 1000 then return ("line %d\n"):format(line) end
    end
end

answers["/redirect"] = function() return oribi.redirect("/") end

answers["/error"] = function() error("this page is broken") end

return function(request)
    answered = answered + 1
    local answer = answers[request.path]
    if not answer then return 404, html, "There is no " .. oribi.escape_html(request.path) .. " here.\n" end
    return answer(request)
end
