-- What scripts find: Redis' functions on top of Lua's, none of which a script can change.
-- `native` has what is written in Rust, and `is_ended` tells that the script is being ended.
local native, is_ended = ...
local serve, environment
local raw_pcall, raw_error, raw_rawset = pcall, error, rawset
local raw_setmetatable, raw_type = setmetatable, type
local raw_setfenv = setfenv
local raw_loadstring, raw_tostring, byte = loadstring, tostring, string.byte
local protected = raw_setmetatable({}, { __mode = 'k' })

local function refuse()
  raw_error('Attempt to modify a readonly table', 2)
end

-- A table that shows another one, and cannot be changed.
local function readonly(of)
  local shown = raw_setmetatable({}, { __index = of, __newindex = refuse, __metatable = false })
  protected[shown] = true
  return shown
end

-- What ends a script passes all handlers of errors.
local function passed(...)
  if is_ended() then raw_error('the script was ended', 0) end
  return ...
end

local function pcall(...) return passed(raw_pcall(...)) end

local function handled(handler, is_well, ...)
  if is_well then return is_well, ... end
  return false, handler(...)
end

-- Where an error arises nothing ends a handler, so it runs behind that.
local function xpcall(body, handler)
  return handled(handler, passed(raw_pcall(body)))
end

local function rawset(of, name, value)
  if protected[of] then refuse() end
  return raw_rawset(of, name, value)
end

local function setmetatable(of, meta)
  if protected[of] then refuse() end
  return raw_setmetatable(of, meta)
end

-- Compiled code would not be checked.
local function loadstring(text, name)
  if raw_type(text) ~= 'string' or byte(text, 1) == 27 then
    return nil, 'only text can be loaded'
  end
  local loaded, refused = raw_loadstring(text, name)
  if loaded then raw_setfenv(loaded, environment) end
  return loaded, refused
end

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = native.version, REDIS_VERSION_NUM = native.version_number,
  sha1hex = native.sha1hex,
}

function redis.pcall(...)
  return passed(serve(...))
end

function redis.call(...)
  local reply = passed(serve(...))
  if raw_type(reply) == 'table' and reply.err ~= nil then raw_error(reply, 0) end
  return reply
end

function redis.error_reply(text)
  if byte(text, 1) == 45 then return { err = text:sub(2) } end
  if not text:find('^%S+%s') then return { err = 'ERR ' .. text } end
  return { err = text }
end

function redis.status_reply(text) return { ok = text } end
function redis.log() end
function redis.setresp(version)
  if version ~= 2 then raw_error('RESP version must be 2 in scripts', 2) end
end
function redis.replicate_commands() return true end
function redis.set_repl() end
function redis.breakpoint() return false end

local string_shown = {}
for name, value in pairs(string) do string_shown[name] = value end
string_shown.dump = nil
-- Methods of strings are those of a table that scripts do not get at.
local meta = getmetatable('')
meta.__index, meta.__metatable = string_shown, false

local globals = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs,
  loadstring = loadstring, next = next, pairs = pairs, pcall = pcall, rawequal = rawequal,
  rawget = rawget, rawset = rawset, select = select, setmetatable = setmetatable,
  tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, xpcall = xpcall,
  _VERSION = _VERSION,
  string = readonly(string_shown), table = readonly(table), math = readonly(math),
  redis = readonly(redis), server = readonly(redis), cjson = readonly(native.cjson),
  bit = readonly(native.bit),
}

-- (No tail calls: an error names the line that is so many calls away.)
local function global(name)
  local value = globals[name]
  if value == nil then
    local text = 'Script attempted to access nonexistent global variable '
    raw_error(text .. "'" .. raw_tostring(name) .. "'", 3)
  end
  return value
end

local absent = raw_setmetatable({}, {
  __metatable = false,
  __newindex = refuse,
  __index = function(_, name)
    local value = global(name)
    return value
  end,
})
globals._G = absent
protected[absent] = true

-- Runs a script with its keys and arguments; whether it went well, and its value or error. Its
-- environment is its own, so that it leaves nothing to others.
return function(script, keys, arguments, serve_command)
  serve = serve_command
  environment = raw_setmetatable({}, {
    __metatable = false,
    __newindex = refuse,
    __index = function(_, name)
      if name == 'KEYS' then return keys end
      if name == 'ARGV' then return arguments end
      local value = global(name)
      return value
    end,
  })
  protected[environment] = true
  raw_setfenv(script, environment)
  return raw_pcall(script)
end
