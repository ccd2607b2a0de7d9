/* body.c - bodies that are not arrays: files, and objects with getline. close is called in every case. */
#include "perl_host.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The size that getline is asked for: PSGI lets a server set $/ to a reference to a number. */
#define LINE_SIZE 65536

/* The number of empty lines after which to check whether the client still waits. */
#define LOOK_AFTER 64

/* The IO behind a glob, a reference to one, or an IO object; NULL if there is none or it is tied. */
static IO *plain_io(pTHX_ SV *body) {
    SV *thing = SvROK(body) ? SvRV(body) : body;
    IO *io = NULL;
    if (SvTYPE(thing) == SVt_PVIO)
        io = (IO *)thing;
    else if (isGV_with_GP(thing))
        io = GvIO((GV *)thing);
    if (!io || (SvRMAGICAL(io) && mg_find((SV *)io, PERL_MAGIC_tiedscalar)))
        return NULL;
    PERL_UNUSED_CONTEXT;
    return io;
}

/* Whether getline would return the unchanged bytes of the file. */
static bool is_unfiltered(PerlIO *handle) {
    for (PerlIOl *layer = *handle; layer; layer = layer->next) {
        const char *name = layer->tab ? layer->tab->name : "";
        if (layer->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF))
            return FALSE;
        if (strNE(name, "unix") && strNE(name, "perlio") && strNE(name, "stdio"))
            return FALSE;
    }
    return TRUE;
}

/* Whether the class of a blessed handle reads like a file: its getline is that of IO::Handle. */
static bool reads_like_handle(pTHX_ SV *body) {
    HV *stash, *handle_stash;
    GV *own, *inherited;
    if (!SvROK(body) || !SvOBJECT(SvRV(body)))
        return TRUE;
    stash = SvSTASH(SvRV(body));
    handle_stash = gv_stashpvs("IO::Handle", 0);
    own = gv_fetchmethod_autoload(stash, "getline", FALSE);
    inherited = handle_stash ? gv_fetchmethod_autoload(handle_stash, "getline", FALSE) : NULL;
    return own && inherited && GvCV(own) == GvCV(inherited);
}

/* Sends a regular file from its current position on. Returns FALSE if the body is no plain handle of a regular file, or if the
 * file's size is 0, like that of files in /proc. */
static bool send_plain_file(pTHX_ const Target *target, const Head *head, SV *body, const char **wrong) {
    IO *io = plain_io(aTHX_ body);
    PerlIO *handle = io ? IoIFP(io) : NULL;
    struct stat facts;
    Off_t position;
    int file;
    if (!PerlIOValid(handle) || !reads_like_handle(aTHX_ body) || !is_unfiltered(handle))
        return FALSE;
    file = PerlIO_fileno(handle);
    if (file < 0 || fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0)
        return FALSE;
    /* If the handle is also open for writing, flushing writes its buffered data to the file. If it has read ahead, flushing
     * moves the descriptor's offset back to where getline would continue. The offset is also right after sysread and sysseek,
     * which bypass the handle. */
    PerlIO_flush(handle);
    position = lseek(file, 0, SEEK_CUR);
    if (position < 0 || fstat(file, &facts) != 0)
        return FALSE;
    *wrong = response_failure(
        aTHX_ oribi_respond_file(target->lane, target->exchange, head->status, head->fields, head->field_count, file,
                                 (uint64_t)position, position < facts.st_size ? (uint64_t)(facts.st_size - position) : 0));
    return TRUE;
}

/* Sends the file that the body's method `path` names. Returns FALSE if the body has no such method, or if the file is not
 * regular or cannot be opened.
 */
static bool send_path(pTHX_ const Target *target, const Head *head, SV *body, const char **wrong) {
    SV *path;
    oribi_bytes text;
    struct stat facts;
    int file;
    if (!sv_isobject(body) || !gv_fetchmethod_autoload(SvSTASH(SvRV(body)), "path", FALSE))
        return FALSE;
    path = protected_call_method(aTHX_ body, "path");
    if (!path || text_bytes(aTHX_ path, &text) != TEXT_OK || text.size == 0 || memchr(text.data, '\0', text.size))
        return FALSE;
    file = open(SvPVX_const(newSVpvn_flags(text.data, text.size, SVs_TEMP)), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return FALSE;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(file);
        return FALSE;
    }
    *wrong = response_failure(aTHX_ oribi_respond_file(target->lane, target->exchange, head->status, head->fields,
                                                       head->field_count, file, 0, (uint64_t)facts.st_size));
    close(file);
    return TRUE;
}

static const char *error_text(pTHX_ const char *what, const char *why) {
    return SvPVX_const(sv_2mortal(newSVpvf("%s%s%s", what, *why ? ": " : "", why)));
}

static const char *died_in(pTHX_ const char *method) {
    oribi_bytes text = {"", 0};
    SV *error = sv_mortalcopy(ERRSV);
    if (text_bytes(aTHX_ error, &text) == TEXT_WIDE)
        text = (oribi_bytes){"(a message with wide characters)", 32};
    return SvPVX_const(sv_2mortal(newSVpvf("%s of the body died: %.*s", method, (int)text.size, text.data)));
}

/* Ends the content. If the body has a method `trailers`, sends the trailers that it returns. */
static const char *finish_lines(pTHX_ const Target *target, SV *body) {
    Head trailers = {.field_count = 0};
    if (sv_isobject(body) && gv_fetchmethod_autoload(SvSTASH(SvRV(body)), "trailers", FALSE)) {
        SV *list = protected_call_method(aTHX_ body, "trailers");
        const char *wrong;
        if (!list)
            return died_in(aTHX_ "trailers");
        wrong = SvOK(list) ? response_trailers(aTHX_ list, &trailers) : NULL;
        if (wrong)
            return wrong;
    }
    return response_failure(aTHX_ trailers.field_count ? oribi_finish_with_trailers(target->lane, target->exchange,
                                                                                    trailers.fields, trailers.field_count)
                                                       : oribi_finish(target->lane, target->exchange));
}

/* The body of Mojo::Server::PSGI. */
static bool is_of_mojolicious(pTHX_ SV *body) {
    const char *name = sv_isobject(body) ? HvNAME(SvSTASH(SvRV(body))) : NULL;
    return name && strEQ(name, "Mojo::Server::PSGI::_IO");
}

/* The error of a body of Mojolicious, or NULL. `empty`: its lines are empty. */
static const char *complaint_of(pTHX_ SV *body, bool empty) {
    CV *code = get_cv("Oribi::Mojolicious::complaint", 0);
    AV *arguments;
    SV *text;
    oribi_bytes bytes;
    if (!code)
        return NULL;
    arguments = (AV *)sv_2mortal((SV *)newAV());
    av_push(arguments, newSVsv(body));
    av_push(arguments, newSViv(empty));
    text = protected_call(aTHX_ (SV *)code, sv_2mortal(newRV_inc((SV *)arguments)));
    return text && text_bytes(aTHX_ text, &bytes) == TEXT_OK ? error_text(aTHX_ SvPVX_const(text), "") : NULL;
}

static oribi_result start_lines(const Target *target, const Head *head) {
    return oribi_start(target->lane, target->exchange, head->status, head->fields, head->field_count);
}

/* Sends line by line until getline returns undef or the client has gone. The head is sent with the first line that is not
 * empty, so if getline fails before, the client gets a 500. */
static const char *send_lines(pTHX_ const Target *target, const Head *head, SV *body) {
    bool started = response_has_no_content(target, head->status), finished = FALSE;
    oribi_result result = started ? start_lines(target, head) : ORIBI_OK;
    const char *wrong = response_failure(aTHX_ result), *dying = "getline";
    unsigned empty = 0;
    bool stuck = FALSE;
    while (!wrong && result == ORIBI_OK && !finished) {
        oribi_bytes bytes;
        SV *line;
        ENTER;
        SAVETMPS;
        line = protected_call_method(aTHX_ body, "getline");
        if (!line) {
            wrong = "";
        } else {
            switch (text_bytes(aTHX_ line, &bytes)) {
            case TEXT_OK:
                /* This body has no content yet, and perhaps never will; its client may have gone meanwhile. */
                if (bytes.size == 0 && ++empty % LOOK_AFTER == 0) {
                    if (is_of_mojolicious(aTHX_ body))
                        stuck = finished = TRUE;
                    else if (oribi_has_gone(target->lane, target->exchange))
                        result = ORIBI_GONE;
                }
                if (bytes.size > 0 && !started) {
                    started = TRUE;
                    result = start_lines(target, head);
                }
                if (bytes.size > 0 && result == ORIBI_OK)
                    result = oribi_write(target->lane, target->exchange, bytes.data, bytes.size);
                while (result == ORIBI_WOKEN && !wrong) {
                    if (signals_dispatch(aTHX))
                        result = oribi_write(target->lane, target->exchange, NULL, 0);
                    else
                        wrong = "", dying = "a signal handler in getline";
                }
                break;
            case TEXT_UNDEFINED:
                finished = TRUE;
                break;
            case TEXT_WIDE:
                wrong = "getline of the body returned a wide character: it must be encoded into bytes";
                break;
            case TEXT_DIED:
                wrong = "";
                break;
            }
        }
        FREETMPS;
        LEAVE;
    }
    if (wrong)
        return *wrong ? wrong : died_in(aTHX_ dying);
    if (stuck)
        return complaint_of(aTHX_ body, TRUE);
    if (!started && result == ORIBI_OK) {
        result = start_lines(target, head);
        if (result != ORIBI_OK)
            return response_failure(aTHX_ result);
    }
    return result == ORIBI_OK ? finish_lines(aTHX_ target, body) : response_failure(aTHX_ result);
}

/* Whether an object has a method, or answers it by AUTOLOAD, as those of Plack::Util::inline_object do, with which middleware
 * replaces bodies. */
static bool answers(pTHX_ SV *object, const char *method) {
    return gv_fetchmethod_autoload(SvSTASH(SvRV(object)), method, TRUE) != NULL;
}

/* Calls the method `close` of the body, which may free resources now. */
static void close_body(pTHX_ const Target *target, SV *body) {
    if (sv_isobject(body) && !answers(aTHX_ body, "close"))
        return;
    if (!protected_call_method(aTHX_ body, "close"))
        app_log_error(aTHX_ target->environment, "close of the body died");
}

static bool is_handle(const SV *body) {
    return isGV_with_GP(body) || (SvROK(body) && (isGV_with_GP(SvRV(body)) || SvTYPE(SvRV(body)) == SVt_PVIO));
}

void body_drop(pTHX_ const Target *target, SV *body) {
    if (sv_isobject(body) || is_handle(body))
        close_body(aTHX_ target, body);
}

const char *body_send(pTHX_ const Target *target, const Head *head, SV *body) {
    const char *wrong = NULL;
    bool is_object = sv_isobject(body);
    if (is_object && !is_handle(body) && !answers(aTHX_ body, "getline")) {
        if (!send_path(aTHX_ target, head, body, &wrong))
            wrong = error_text(aTHX_ "the body has neither a getline method nor a path", text_describe(aTHX_ body));
    } else if (is_of_mojolicious(aTHX_ body) && (wrong = complaint_of(aTHX_ body, FALSE)) != NULL) {
        close_body(aTHX_ target, body);
        return wrong;
    } else if (!is_object && !is_handle(body)) {
        return error_text(aTHX_ "the body must be an array reference, a file handle or an object with getline",
                    text_describe(aTHX_ body));
    } else if (!send_plain_file(aTHX_ target, head, body, &wrong) && !send_path(aTHX_ target, head, body, &wrong)) {
        ENTER;
        sv_setsv_mg(save_scalar(gv_fetchpvs("/", GV_ADD | GV_NOTQUAL, SVt_PV)),
                    sv_2mortal(newRV_noinc(newSViv(LINE_SIZE))));
        wrong = send_lines(aTHX_ target, head, body);
        LEAVE;
    }
    close_body(aTHX_ target, body);
    return wrong;
}
