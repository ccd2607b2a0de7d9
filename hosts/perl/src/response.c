/* response.c - reads a response array.
 *
 * If reading the response runs no code of the app, which is nearly always so, nothing is copied: fields and pieces point into
 * the app's values. If a value is tied or overloads "", or if the body is an object, reading it runs code that might change or
 * free values that were read before. Then the response is read from a copy that the app cannot reach. The message about an
 * invalid response describes the value that was found instead of a valid one.
 */
#include "perl_host.h"

static const char *complaint(pTHX_ const char *format, ...) __attribute__((format(printf, pTHX_1, pTHX_2)));

static const char *complaint(pTHX_ const char *format, ...) {
    SV *text;
    va_list arguments;
    va_start(arguments, format);
    text = sv_2mortal(vnewSVpvf(format, &arguments));
    va_end(arguments);
    return SvPVX_const(text);
}

/* Copies an array; only called through protected_call, because its elements may run code. */
static XS(array_copy) {
    dXSARGS;
    AV *from, *to;
    SSize_t count;
    if (items != 1)
        croak("one array is expected");
    from = (AV *)SvRV(ST(0));
    to = newAV();
    ST(0) = sv_2mortal(newRV_noinc((SV *)to));
    count = av_len(from) + 1;
    for (SSize_t i = 0; i < count; i++) {
        SV **value = av_fetch(from, i, 0);
        /* Code that runs while reading may remove the element from the array. */
        av_push(to, value && *value ? newSVsv(sv_2mortal(SvREFCNT_inc_simple_NN(*value))) : newSV(0));
    }
    XSRETURN(1);
}

/* Whether reading the elements of an array runs no code. */
static bool is_quiet_list(const AV *list) {
    SV *const *value = AvARRAY(list);
    if (UNLIKELY(SvRMAGICAL(list)))
        return FALSE;
    for (SSize_t left = AvFILLp(list) + 1; left > 0; left--, value++)
        if (UNLIKELY(!text_is_quiet(*value)))
            return FALSE;
    return TRUE;
}

/* The array behind a reference, if its elements can be read without running code; otherwise NULL. */
static AV *quiet_list(SV *value) {
    if (!value || (SvFLAGS(value) & (SVf_ROK | SVs_GMG)) != SVf_ROK || SvTYPE(SvRV(value)) != SVt_PVAV)
        return NULL;
    return is_quiet_list((AV *)SvRV(value)) ? (AV *)SvRV(value) : NULL;
}

/* Whether copying the elements of an array runs no code: references are copied as references. */
static bool is_copied_quietly(const AV *list) {
    if (SvRMAGICAL(list))
        return FALSE;
    for (SSize_t i = 0; i <= AvFILLp(list); i++)
        if (AvARRAY(list)[i] && SvGMAGICAL(AvARRAY(list)[i]))
            return FALSE;
    return TRUE;
}

/* A mortal copy of an array that the app cannot reach, with the values of tied elements; empty if reading died. */
static AV *private_list(pTHX_ AV *list) {
    SV *copier, *copy;
    if (is_copied_quietly(list)) {
        AV *to = (AV *)sv_2mortal((SV *)newAV());
        for (SSize_t i = 0; i <= AvFILLp(list); i++)
            av_push(to, AvARRAY(list)[i] ? newSVsv(AvARRAY(list)[i]) : newSV(0));
        return to;
    }
    copier = sv_2mortal((SV *)newXS(NULL, array_copy, __FILE__));
    copy = protected_call(aTHX_ copier, sv_2mortal(newRV_inc((SV *)list)));
    return copy ? (AV *)SvRV(copy) : (AV *)sv_2mortal((SV *)newAV());
}

/* Replaces an element that is a reference to a list by a reference to a private copy of the list. */
static void make_private(pTHX_ AV *response, SSize_t index) {
    SV *value = index <= AvFILLp(response) ? AvARRAY(response)[index] : NULL;
    /* A body that is an object is read by its methods, even if it is an array. */
    if (value && SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV && (index < 2 || !SvOBJECT(SvRV(value))))
        av_store(response, index, newRV_inc((SV *)private_list(aTHX_ (AV *)SvRV(value))));
}

AV *response_settle(pTHX_ AV *response) {
    SSize_t last = AvFILLp(response);
    if (LIKELY(!SvRMAGICAL(response) && (last == 1 || last == 2))) {
        SV **element = AvARRAY(response);
        AV *body;
        if (LIKELY(text_is_quiet(element[0]) && quiet_list(element[1])
                   && (last == 1 || ((body = quiet_list(element[2])) != NULL && !SvOBJECT(body)))))
            return response;
    }
    response = private_list(aTHX_ response);
    make_private(aTHX_ response, 1);
    make_private(aTHX_ response, 2);
    return response;
}

SV *response_settle_fields(pTHX_ SV *headers) {
    SV *settled;
    if (LIKELY(quiet_list(headers) != NULL))
        return headers;
    settled = sv_2mortal(newSVsv(headers));
    if (SvROK(settled) && SvTYPE(SvRV(settled)) == SVt_PVAV)
        return sv_2mortal(newRV_inc((SV *)private_list(aTHX_ (AV *)SvRV(settled))));
    return settled;
}

const char *response_text_complaint(pTHX_ TextResult result, const char *what, const char *name) {
    if (result == TEXT_DIED) {
        SV *error = ERRSV;
        return complaint(aTHX_ "%s %s cannot be made a string: %s", what, name, SvPOK(error) ? SvPVX_const(error) : "it died");
    }
    return complaint(aTHX_ "%s %s has a wide character: it must be encoded into bytes", what, name);
}

static const char *read_status(pTHX_ SV *value, uint16_t *status) {
    IV number = 0;
    if (LIKELY(SvIOK(value) && !SvGMAGICAL(value))) {
        number = SvIVX(value);
    } else {
        oribi_bytes text;
        UV unsigned_number;
        if (text_bytes(aTHX_ value, &text) == TEXT_OK && text.size <= 10
            && grok_number(text.data, text.size, &unsigned_number) == IS_NUMBER_IN_UV && unsigned_number <= 599)
            number = (IV)unsigned_number;
    }
    if (number < 100 || number > 599)
        return complaint(aTHX_ "the status must be a number from 100 to 599, not %s", text_describe(aTHX_ value));
    *status = (uint16_t)number;
    return NULL;
}

const char *response_fields(pTHX_ SV *headers, Head *head) {
    AV *list;
    SSize_t count;
    bool has_digits = FALSE;
    if (!SvROK(headers) || SvTYPE(SvRV(headers)) != SVt_PVAV)
        return complaint(aTHX_ "the headers must be an array reference, not %s", text_describe(aTHX_ headers));
    list = (AV *)SvRV(headers);
    count = AvFILLp(list) + 1;
    if (count % 2)
        return complaint(aTHX_ "the headers must be names and values in turn, but there are %" IVdf " of them", (IV)count);
    head->field_count = (size_t)count / 2;
    head->fields = head->few;
    if (head->field_count > C_ARRAY_LENGTH(head->few))
        head->fields = (oribi_field *)SvPVX(sv_2mortal(newSV(head->field_count * sizeof(oribi_field))));
    for (size_t i = 0; i < head->field_count; i++) {
        oribi_field *field = &head->fields[i];
        SV *value = response_element(aTHX_ list, (SSize_t)(2 * i + 1));
        TextResult result = text_bytes(aTHX_ response_element(aTHX_ list, (SSize_t)(2 * i)), &field->name);
        if (UNLIKELY(result != TEXT_OK))
            return result == TEXT_UNDEFINED ? complaint(aTHX_ "a header's name is undef")
                                            : response_text_complaint(aTHX_ result, "the name of", "a header");
        if (!SvPOK(value) && !has_digits && text_digits(value, head->digits + sizeof head->digits, &field->value)) {
            has_digits = TRUE;
            continue;
        }
        result = text_bytes(aTHX_ value, &field->value);
        if (UNLIKELY(result == TEXT_UNDEFINED)) {
            const char *name = SvPVX_const(newSVpvn_flags(field->name.data, field->name.size, SVs_TEMP));
            app_log(aTHX_ NULL, ORIBI_LOG_WARN, "the header %s is undef and was sent empty", name);
        } else if (UNLIKELY(result != TEXT_OK)) {
            return response_text_complaint(aTHX_ result, "the header",
                                  SvPVX_const(newSVpvn_flags(field->name.data, field->name.size, SVs_TEMP)));
        }
    }
    return NULL;
}

const char *response_trailers(pTHX_ SV *trailers, Head *head) {
    const char *wrong = response_fields(aTHX_ response_settle_fields(aTHX_ trailers), head);
    return wrong ? complaint(aTHX_ "in the trailers: %s", wrong) : NULL;
}

const char *response_head(pTHX_ AV *response, Head *head) {
    const char *wrong = read_status(aTHX_ response_element(aTHX_ response, 0), &head->status);
    return wrong ? wrong : response_fields(aTHX_ response_element(aTHX_ response, 1), head);
}

const char *response_failure(pTHX_ oribi_result result) {
    if (LIKELY(result == ORIBI_OK || result == ORIBI_GONE))
        return NULL;
    return complaint(aTHX_ "%s", oribi_last_error());
}
