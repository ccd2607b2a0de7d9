/* oribi.c - the Ruby interface: Oribi.serve, Oribi.log, Oribi.version and others. */
#include "ruby_host.h"

static VALUE oribi_version_text(VALUE self) {
    return rb_utf8_str_new_cstr(oribi_version());
}

static VALUE oribi_log_text(VALUE self, VALUE level, VALUE text) {
    static const struct {
        const char *name;
        oribi_log_level level;
    } levels[] = {
        {"debug", ORIBI_LOG_DEBUG}, {"info", ORIBI_LOG_INFO},   {"warn", ORIBI_LOG_WARN},
        {"error", ORIBI_LOG_ERROR}, {"fatal", ORIBI_LOG_ERROR},
    };
    const ID name = rb_to_id(level);
    text = rb_obj_as_string(text);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (name == rb_intern(levels[i].name)) {
            oribi_log(levels[i].level, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
            RB_GC_GUARD(text);
            return Qnil;
        }
    }
    rb_raise(rb_eArgError, "the levels are :debug, :info, :warn, :error and :fatal, not %" PRIsVALUE, rb_inspect(level));
}

static VALUE option(VALUE options, const char *name, VALUE missing) {
    VALUE value = rb_hash_lookup2(options, ID2SYM(rb_intern(name)), Qundef);
    return value == Qundef ? missing : value;
}

static void read_rack_version(VALUE version) {
    server.rack_major = 2;
    server.rack_minor = 2;
    if (NIL_P(version))
        return;
    version = rb_Array(version);
    server.rack_major = NUM2INT(rb_ary_entry(version, 0));
    server.rack_minor = NIL_P(rb_ary_entry(version, 1)) ? 0 : NUM2INT(rb_ary_entry(version, 1));
}

static void read_out_of_band(VALUE options) {
    server.collect_every = server.collect_from = 0;
    server.gctools = false;
    if (NIL_P(options))
        return;
    Check_Type(options, T_HASH);
    server.gctools = RTEST(option(options, "gctools", Qfalse));
    server.collect_every = server.gctools ? 1 : NUM2UINT(option(options, "every", INT2FIX(1)));
    if (!server.gctools && !NIL_P(option(options, "at_random_from", Qnil)))
        server.collect_from = NUM2UINT(option(options, "at_random_from", Qnil));
}

/* Makes the objects of the loaded app old: they become old by surviving several garbage collections. Then the minor collections
 * of workers skip these objects, and their memory stays shared with the workers. (Process.warmup of Ruby 3.3 also moves
 * objects, which not every extension supports.) */
static void age_what_is_loaded(void) {
    enum { SURVIVALS_UNTIL_OLD = 3 };
    for (int i = 0; i <= SURVIVALS_UNTIL_OLD; i++)
        rb_gc_start();
}

/* Whether --loop is none. */
static bool is_loop_none(const oribi_config *config) {
    int can_loop;
    const char *const name = oribi_config_loop(config, &can_loop);
    return name && strcmp(name, "none") == 0;
}

/* Without the lock: the lane waits in the scheduler, on the thread that has loaded the app. */
static void serve_in_fibers(oribi_host *host, const oribi_config *config) {
    rb_require("oribi/scheduler");
    server.request_timeout = oribi_config_request_timeout(config);
    server.own_scheduler = is_loop_none(config);
    host->lock = NULL;
    host->leave = fibers_leave;
    host->close = fibers_close;
    host->begin = fibers_begin;
    host->answer = fibers_answer;
    host->run_loop = fibers_run_loop;
    host->attend = fibers_attend;
}

/* serve(app, settings, hooks:, environment:, rack_version:, out_of_band:, error_handler:, early_hints:) */
static VALUE oribi_serve(int argc, VALUE *argv, VALUE self) {
    oribi_host host = {
        .size = sizeof(oribi_host),
        .name = "ruby",
        .data = &server,
        .raw_path = 1,
        .open = context_open,
        .enter = context_enter,
        .leave = context_leave,
        .close = context_close,
        .answer = call_answer,
        .run_deferred = deferred_run,
        .before_fork = process_before_fork,
        .worker_started = process_worker_started,
        .worker_stopping = process_worker_stopping,
        .set_title = process_set_title,
        .end = process_end,
        .server_ready = process_server_ready,
        .fork = fork_by_ruby,
        .lock = &threads_lock,
        .interrupt = deadline_interrupt,
        .trace = tracing_ask,
        .trace_unnoticed = 1,
    };
    static bool serving;
    VALUE app, settings, options, environment;
    int status;
    rb_scan_args(argc, argv, "2:", &app, &settings, &options);
    if (NIL_P(options))
        options = rb_hash_new();
    if (serving)
        rb_raise(rb_eRuntimeError, "a process can serve once at a time");
    if (!rb_respond_to(app, names.call))
        rb_raise(rb_eArgError, "an app must respond to call");
    settings_of(settings);
    server.app = app;
    server.hooks = option(options, "hooks", rb_hash_new());
    Check_Type(server.hooks, T_HASH);
    server.error_handler = option(options, "error_handler", Qnil);
    environment = option(options, "environment", Qnil);
    server.development = RB_TYPE_P(environment, T_STRING) && strcmp(StringValueCStr(environment), "development") == 0;
    server.early_hints = RTEST(option(options, "early_hints", Qtrue));
    read_rack_version(option(options, "rack_version", Qnil));
    read_out_of_band(option(options, "out_of_band", Qnil));
    server.io_threads = oribi_config_io_threads(settings_of(settings)) > 0;
    server.fibers = oribi_config_fibers(settings_of(settings)) > 0;
    if (server.fibers)
        serve_in_fibers(&host, settings_of(settings));
    stray_watch();
    age_what_is_loaded();
    /* Handles the signals that Ruby has noted meanwhile; each forked worker would inherit them. */
    rb_thread_check_ints();
    serving = true;
    signals_yield_to_server();
    status = oribi_run(settings_of(settings), &host);
    signals_restore();
    serving = false;
    RB_GC_GUARD(settings);
    return INT2NUM(status);
}

/* Oribi.load_failed(text) */
static VALUE oribi_load_failed_text(VALUE self, VALUE text) {
    StringValue(text);
    oribi_load_failed(RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
    return Qnil;
}

/* Oribi.program_name = name: sets $0, but not the title of the process. */
static VALUE oribi_set_program_name(VALUE self, VALUE name) {
    ruby_script(StringValueCStr(name));
    return name;
}

__attribute__((visibility("default"))) void Init_oribi(void) {
    oribi_prepare();
    shared_define();
    fork_watch();
    rb_define_singleton_method(oribi_module, "version", oribi_version_text, 0);
    rb_define_singleton_method(oribi_module, "log", oribi_log_text, 2);
    rb_define_singleton_method(oribi_module, "load_failed", oribi_load_failed_text, 1);
    rb_define_singleton_method(oribi_module, "serve", oribi_serve, -1);
    rb_define_singleton_method(oribi_module, "program_name=", oribi_set_program_name, 1);
    settings_define();
    input_define();
    errors_define();
    hijack_define();
    offer_define();
    live_define();
    stream_define();
    environment_define();
    poller_define();
    fibers_define();
    app_metrics_define();
}
