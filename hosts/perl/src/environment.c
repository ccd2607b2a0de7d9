/* environment.c - the PSGI environment of a request: its keys, and the record of the entries of the hash that is kept for the
 * next request. filling.c fills that hash, reuse.c determines whether the app has kept it.
 */
#include "perl_host.h"

static const char *const psgi_names[PSGI_NAMES] = {
    [PSGI_VERSION] = "psgi.version",
    [PSGI_URL_SCHEME] = "psgi.url_scheme",
    [PSGI_INPUT] = "psgi.input",
    [PSGI_ERRORS] = "psgi.errors",
    [PSGI_MULTITHREAD] = "psgi.multithread",
    [PSGI_MULTIPROCESS] = "psgi.multiprocess",
    [PSGI_RUN_ONCE] = "psgi.run_once",
    [PSGI_NONBLOCKING] = "psgi.nonblocking",
    [PSGI_STREAMING] = "psgi.streaming",
    [PSGIX_INPUT_BUFFERED] = "psgix.input.buffered",
    [PSGIX_IO] = "psgix.io",
    [PSGIX_HARAKIRI] = "psgix.harakiri",
    [PSGIX_CLEANUP] = "psgix.cleanup",
    [PSGIX_CLEANUP_HANDLERS] = "psgix.cleanup.handlers",
    [PSGIX_INFORMATIONAL] = "psgix.informational",
    [PSGIX_LOGGER] = "psgix.logger",
    [PSGIX_HARAKIRI_COMMIT] = "psgix.harakiri.commit",
    [PSGIX_WEBSOCKET] = "psgix.websocket",
    [PSGIX_EVENT_STREAM] = "psgix.event_stream",
    [ORIBI_DATA] = "oribi.data",
    [ORIBI_TRAILERS] = "oribi.trailers",
    [ORIBI_QUEUE_TIME] = "oribi.queue_time",
    [ORIBI_DEADLINE] = "oribi.deadline",
    [ORIBI_ON_GONE] = "oribi.on_gone",
    [ORIBI_ON_ROOM] = "oribi.on_room",
};

void environment_prepare(pTHX_ Environment *environment) {
    U32 server_keys = oribi_key_count();
    AV *version = newAV();
    CV *logger = get_cv("Oribi::log_message", 0);
    environment->server_keys = server_keys;
    Newxz(environment->names, server_keys + PSGI_NAMES, SV *);
    Newxz(environment->places, server_keys + PSGI_NAMES, Slot *);
    for (U32 key = 0; key < server_keys; key++) {
        oribi_bytes name = oribi_key_name(key);
        environment->names[key] = newSVpvn_share(name.data, (I32)name.size, 0);
        if (name.size == 12 && memEQ(name.data, "HTTP_UPGRADE", 12))
            environment->key_upgrade = key;
        if (name.size == 11 && memEQ(name.data, "HTTP_ACCEPT", 11))
            environment->key_accept = key;
    }
    for (U32 key = 0; key < PSGI_NAMES; key++)
        environment->names[server_keys + key] = newSVpvn_share(psgi_names[key], (I32)strlen(psgi_names[key]), 0);
    /* Read-only, because all requests share it. */
    av_push(version, newSViv(1));
    av_push(version, newSViv(1));
    SvREADONLY_on(AvARRAY(version)[0]);
    SvREADONLY_on(AvARRAY(version)[1]);
    SvREADONLY_on((SV *)version);
    environment->version = (SV *)version;
    environment->errors = SvREFCNT_inc((SV *)gv_fetchpvs("STDERR", GV_ADD | GV_NOTQUAL, SVt_PVIO));
    /* In clones STDERR is buffered: an app's messages would arrive late, or never if its process is killed. */
    IoFLAGS(GvIOn((GV *)environment->errors)) |= IOf_FLUSH;
    environment->logger = SvREFCNT_inc((SV *)logger);
    environment->handle_stash = gv_stashpvs("IO::File", GV_ADD);
}

/* Frees the hash that was kept for the next request. */
static void drop_hash(pTHX_ Environment *environment) {
    SvREFCNT_dec(environment->reference);
    SvREFCNT_dec(environment->hash);
    environment->reference = NULL;
    environment->hash = NULL;
}

void environment_release(pTHX_ Environment *environment) {
    for (U32 key = 0; key < environment->server_keys + PSGI_NAMES; key++)
        SvREFCNT_dec(environment->names[key]);
    Safefree(environment->names);
    Safefree(environment->places);
    drop_hash(aTHX_ environment);
    SvREFCNT_dec(environment->version);
    SvREFCNT_dec(environment->errors);
    SvREFCNT_dec(environment->logger);
    SvREFCNT_dec(environment->deadline);
    SvREFCNT_dec(environment->content);
}

void environment_offer_deadline(pTHX_ Environment *environment) {
    environment->deadline = SvREFCNT_inc((SV *)get_cv("Oribi::extend_deadline", 0));
    /* The next request begins with a hash that has the key. */
    drop_hash(aTHX_ environment);
}

void environment_forget(Environment *environment) {
    /* Not freed, because its content may have been freed already. */
    environment->hash = NULL;
    environment->reference = NULL;
    environment->rememberable = FALSE;
}

SV *environment_text(pTHX_ oribi_bytes text) {
    /* A little extra room, so that the next client's value probably fits. */
    SV *value = newSV(text.size < 48 ? 64 : text.size + text.size / 4);
    sv_setpvn(value, text.size ? text.data : "", text.size);
    return value;
}

void environment_expect(Slot *slot, SlotKind kind, SV *value) {
    slot->value = value;
    slot->kind = kind;
    slot->references = 1;
    slot->flags = SvFLAGS(value);
    if (kind == SLOT_INTEGER)
        slot->expected.integer = SvIVX(value);
    else if (kind == SLOT_TEXT)
        slot->expected.text = SvPVX(value);
    else
        slot->expected.referent = SvRV(value);
}

void environment_remember(Environment *environment) {
    HV *hash = environment->hash;
    U32 place = 0;
    environment->buckets = HvARRAY(hash);
    environment->bucket_maximum = HvMAX(hash);
    Zero(environment->places, environment->server_keys + PSGI_NAMES, Slot *);
    for (STRLEN bucket = 0; bucket <= environment->bucket_maximum; bucket++) {
        HE **link = &environment->buckets[bucket];
        for (HE *entry = *link; entry; link = &HeNEXT(entry), entry = *link) {
            U32 found = place;
            Slot slot;
            while (found < environment->slot_count && environment->slots[found].entry != entry)
                found++;
            if (found == environment->slot_count) {
                environment->rememberable = FALSE;
                return;
            }
            slot = environment->slots[found];
            slot.link = link;
            environment->slots[found] = environment->slots[place];
            environment->slots[place] = slot;
            if (slot.key != ORIBI_KEY_OTHER)
                environment->places[slot.key] = &environment->slots[place];
            place++;
        }
    }
    if (place != environment->slot_count)
        environment->rememberable = FALSE;
}

SV *environment_argument(pTHX_ Environment *environment, HV *hash) {
    SV *reference = environment->reference;
    if (UNLIKELY(!reference || SvRV(reference) != (SV *)hash)) {
        SvREFCNT_dec(reference);
        reference = environment->reference = newRV_inc((SV *)hash);
    }
    return reference;
}

SV *environment_value(pTHX_ Environment *environment, HV *hash, U32 psgi_key) {
    SV *name = environment->names[environment->server_keys + psgi_key];
    HE *entry = NULL;
    if (UNLIKELY(SvRMAGICAL(hash)))
        return NULL;
    /* Fetching a forbidden key of a locked hash dies, but exists does not. */
    if (hv_exists_ent(hash, name, SvSHARED_HASH(name)))
        entry = hv_fetch_ent(hash, name, 0, SvSHARED_HASH(name));
    return entry ? HeVAL(entry) : NULL;
}
