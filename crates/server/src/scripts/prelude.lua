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
  if raw_type(reply) == 'table' and reply.err ~= nil then
    -- The line of the caller, unless that has ended with this call.
    local _, place = raw_pcall(raw_error, '', 3)
    reply.source, reply.line = place:match('^([^:]+):(%d+)')
    raw_error(reply, 0)
  end
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

-- The functions that a library declares while it is loaded, in their order and by their names.
local declared
local parameters = { function_name = true, callback = true, flags = true, description = true }
local known_flags = {
  ['no-writes'] = true, ['allow-oom'] = true, ['allow-stale'] = true, ['no-cluster'] = true,
  ['allow-cross-slot-keys'] = true,
}

local function checked_flags(flags)
  if raw_type(flags) ~= 'table' then
    raw_error('flags argument to redis.register_function must be a table representing function flags', 0)
  end
  local found = {}
  for at, flag in ipairs(flags) do
    if not known_flags[flag] then raw_error('unknown flag given', 0) end
    found[at] = flag
  end
  return found
end

local function named(given)
  for name in pairs(given) do
    if not parameters[name] then
      raw_error('unknown argument given to redis.register_function', 0)
    end
  end
  if given.function_name == nil then
    raw_error('redis.register_function must get a function name argument', 0)
  end
  if given.callback == nil then
    raw_error('redis.register_function must get a callback argument', 0)
  end
  return given
end

function redis.register_function(...)
  if declared == nil then
    raw_error('redis.register_function can only be called on FUNCTION LOAD command', 2)
  end
  local count, first, second = select('#', ...), ...
  if count < 1 or count > 2 then
    raw_error('wrong number of arguments to redis.register_function', 0)
  end
  if count == 1 and raw_type(first) ~= 'table' then
    raw_error('calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).', 0)
  end
  local given = count == 1 and named(first) or { function_name = first, callback = second }
  local name, description = given.function_name, given.description or ''
  if raw_type(name) ~= 'string' then
    raw_error('function_name argument given to redis.register_function must be a string', 0)
  end
  if raw_type(given.callback) ~= 'function' then
    raw_error('callback argument given to redis.register_function must be a function', 0)
  end
  if raw_type(description) ~= 'string' then
    raw_error('description argument given to redis.register_function must be a string', 0)
  end
  if not name:find('^[%w_]+$') then
    raw_error('Function names can only contain letters, numbers, or underscores(_) and must be at least one character long', 0)
  end
  if declared.callbacks[name] then raw_error('Function already exists in the library', 0) end
  declared.callbacks[name] = given.callback
  local flags = checked_flags(given.flags or {})
  declared[#declared + 1] = { name = name, description = description, flags = flags }
end

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

-- An environment is a script's own, so that it leaves nothing to others.
local function environment_with(own)
  environment = raw_setmetatable({}, {
    __metatable = false,
    __newindex = refuse,
    __index = function(_, name)
      if own[name] ~= nil then return own[name] end
      local value = global(name)
      return value
    end,
  })
  protected[environment] = true
  return environment
end

-- Runs a script with its keys and arguments; whether it went well, and its value or error.
local function run(script, keys, arguments, serve_command)
  serve = serve_command
  raw_setfenv(script, environment_with({ KEYS = keys, ARGV = arguments }))
  return raw_pcall(script)
end

local function serve_nothing()
  raw_error('commands cannot be executed while a library is loaded', 3)
end

-- Loads a library; whether it went well, its error, and the functions that it declares.
local function declare(library)
  serve = serve_nothing
  raw_setfenv(library, environment_with({}))
  declared = { callbacks = {} }
  local is_well, why = raw_pcall(library)
  local functions = declared
  declared = nil
  return is_well, why, functions
end

-- Runs a function of a library as a script is run.
local function call(library, name, keys, arguments, serve_command)
  local is_well, why, functions = declare(library)
  if not is_well then return false, why end
  serve = serve_command
  return raw_pcall(functions.callbacks[name], keys, arguments)
end

return { run = run, declare = declare, call = call }
