/* app_log.c - messages about the app in the error log, after the method and the path of the request. */
#include "perl_host.h"

/* "GET /path: ", or nothing. The path is that of the target as sent, without its query, which may contain secrets. */
SV *app_log_line(pTHX_ HV *environment) {
    SV *line = sv_2mortal(newSVpvs(""));
    SV **method = NULL, **target = NULL;
    if (environment && !SvRMAGICAL(environment) && hv_exists(environment, "REQUEST_METHOD", 14)
        && hv_exists(environment, "REQUEST_URI", 11)) {
        method = hv_fetchs(environment, "REQUEST_METHOD", 0);
        target = hv_fetchs(environment, "REQUEST_URI", 0);
    }
    if (method && target && SvPOK(*method) && SvPOK(*target)) {
        const char *path = SvPVX_const(*target);
        const char *query = (const char *)memchr(path, '?', SvCUR(*target));
        sv_catpvf(line, "%s %.*s: ", SvPVX_const(*method), (int)(query ? (STRLEN)(query - path) : SvCUR(*target)), path);
    }
    return line;
}

void app_log(pTHX_ HV *environment, oribi_log_level level, const char *format, ...) {
    SV *line;
    va_list arguments;
    ENTER;
    SAVETMPS;
    line = app_log_line(aTHX_ environment);
    va_start(arguments, format);
    sv_vcatpvf(line, format, &arguments);
    va_end(arguments);
    oribi_log(level, SvPVX_const(line), SvCUR(line));
    FREETMPS;
    LEAVE;
}

void app_log_error(pTHX_ HV *environment, const char *what) {
    SV *line, *error;
    oribi_bytes text = {"", 0};
    ENTER;
    SAVETMPS;
    line = app_log_line(aTHX_ environment);
    error = sv_mortalcopy_flags(ERRSV, SV_NOSTEAL);
    /* The log takes bytes: strings with wide characters are written as UTF-8. */
    if (SvPOK(error) && !SvROK(error)) {
        text.data = SvPVX_const(error);
        text.size = SvCUR(error);
    } else if (text_bytes(aTHX_ error, &text) != TEXT_OK) {
        text.data = text_describe(aTHX_ error);
        text.size = strlen(text.data);
    }
    while (text.size > 0 && (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == ' '))
        text.size--;
    sv_catpvf(line, "%s: ", what);
    sv_catpvn(line, text.data, text.size);
    oribi_log(ORIBI_LOG_ERROR, SvPVX_const(line), SvCUR(line));
    /* An exception object must not outlive the request. */
    CLEAR_ERRSV();
    FREETMPS;
    LEAVE;
}
