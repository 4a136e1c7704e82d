"""Finds named things in a text: by shape where they have one, by spelling and word lists else.

What a piece of text *is* never depends on what was asked for: all types are searched, overlaps are
resolved by one fixed order, and only then the wanted types and the confidence are applied. So
"2024-01-15" is not a phone number for someone who asks for phone numbers only.

Invariants:
- `text[start_pos:end_pos]` is the entity, counted in code points;
- entities do not overlap and come in the order of the text;
- the time grows linearly with the text: every repetition in a pattern is bounded or cannot start
  inside its own match, and runs of capitalised words are cut at a fixed length.
"""

import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

ENTITY_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "DATE", "MONEY", "EMAIL", "PHONE", "URL")

# Who keeps a stretch of text that several types claim: the more particular shape first.
PRECEDENCE = ("URL", "EMAIL", "DATE", "MONEY", "PHONE", "ORGANIZATION", "LOCATION", "PERSON")

# Longer runs of capitalised words are headlines, not names.
LONGEST_RUN = 8
LONGEST_NAME = 5


class Entity(NamedTuple):
    """A candidate or a result."""

    type: str
    start: int
    end: int
    confidence: float


class Token(NamedTuple):
    """A word and where it stands."""

    word: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """The word as the word lists write it."""
        return self.word.casefold()


def extract_entities(
    text: str, entity_types: Optional[List[str]] = None, min_confidence: float = 0.5
) -> Dict[str, Any]:
    """The skill: see `schema.json` for arguments and result."""
    wanted = entity_types or ENTITY_TYPES
    found = [
        entity
        for entity in without_overlaps(candidates(text), len(text))
        if entity.type in wanted and entity.confidence >= min_confidence
    ]
    return {
        "entities": [as_json(text, entity) for entity in found],
        "total_entities": len(found),
        "entity_counts": count_by_type(found),
    }


def candidates(text: str) -> Iterator[Entity]:
    """Everything that might be an entity, overlaps included."""
    yield from find_urls(text)
    yield from find_emails(text)
    yield from find_dates(text)
    yield from find_money(text)
    yield from find_phones(text)
    yield from find_names(text)
    yield from find_unspaced_names(text)


def without_overlaps(found: Iterator[Entity], length: int) -> List[Entity]:
    """Keeps the best claim to each place: by precedence, then the longer, then the earlier."""
    ranked = sorted(
        found,
        key=lambda one: (PRECEDENCE.index(one.type), one.start - one.end, one.start, -one.confidence),
    )
    taken = bytearray(length)
    kept = []
    for entity in ranked:
        if not any(taken[entity.start : entity.end]):
            taken[entity.start : entity.end] = b"\1" * (entity.end - entity.start)
            kept.append(entity)
    return sorted(kept, key=lambda one: one.start)


def as_json(text: str, entity: Entity) -> Dict[str, Any]:
    """The wire form of an entity."""
    return {
        "text": text[entity.start : entity.end],
        "type": entity.type,
        "confidence": entity.confidence,
        "start_pos": entity.start,
        "end_pos": entity.end,
    }


def count_by_type(found: List[Entity]) -> Dict[str, int]:
    """Counts in the order of the schema, so that the bytes do not depend on the text's order."""
    types = [entity.type for entity in found]
    return {name: types.count(name) for name in ENTITY_TYPES if name in types}


# Things with a shape.

# Ends at white space, quotes, brackets of markup and wide punctuation (U+3000 to U+303F, U+FFxx).
URL = re.compile(
    r"(?<![A-Za-z0-9_@])(?:https?://|ftp://|www\.)[^\s<>\"'`{}|\\^“”«»\u3000-\u303f\uff00-\uffef]{1,2048}",
    re.IGNORECASE,
)
# The look-behind keeps a run from being tried again at each of its characters.
EMAIL = re.compile(
    r"(?<![\w.+%-])[^\W_](?:[\w.+%'-]{0,62}[\w+%-])?@(?:[\w-]{1,63}\.){1,8}(?:xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})(?!\w)",
    re.IGNORECASE,
)
PHONE = re.compile(
    r"""(?<![\w.+/-])(?:
        \+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ ./-]?\d{2,4}){1,4}   # +1-555-123-4567
      | (?<!\d[ ])(?:                               # Behind digits and a space it is part of more.
            (?:1[ .-])?\(\d{2,5}\)[ ]?\d{3,4}[ .-]?\d{3,5}                    # (555) 123-4567
          | (?:1[.-])?\d{3}([.-])\d{3}\1\d{4}                                 # 555-123-4567
          | \d{3}[ ]\d{3}[ ]\d{4}                                             # 555 123 4567
          | 0\d{1,4}[ /-]\d{2,4}(?:[ -]\d{2,4}){1,3}                          # 01 23 45 67 89
          | 0\d{2,4}[ /-]\d{5,8}                                              # 030 1234567
          | \d{3}-\d{4}                                                       # 555-1234
        )
    )(?!\w|[.-]\d)""",
    re.VERBOSE,
)

MONTH = (
    r"(?:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|février|mar(?:ch|s)?|märz|apr(?:il)?|avril|may|mai|"
    r"june?|juni|juin|july?|juli|juillet|aug(?:ust)?|août|sept?(?:ember|embre)?|oct(?:ober|obre)?|"
    r"okt(?:ober)?|nov(?:ember|embre)?|dec(?:ember)?|dez(?:ember)?|décembre)"
)
MONTH_NUMBER = r"(?:1[0-2]|0?[1-9])"
DAY = r"(?:[12]\d|3[01]|0?[1-9])"
DATE_PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # 2024-01-15, with a time of day if there is one.
        r"(?<![\w.-])\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
        r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?![\w-])",
        # 15.01.2024, 15-1-2024, 1/15/24: day or month first, but one of each.
        rf"(?<![\w./-])(?:{DAY}([./-]){MONTH_NUMBER}\1|{MONTH_NUMBER}([./-]){DAY}\2)\d{{4}}(?![\w/-]|\.\d)",
        rf"(?<![\w./-])(?:{DAY}/{MONTH_NUMBER}|{MONTH_NUMBER}/{DAY})/\d{{2}}(?![\w/-]|\.\d)",
        # 15.01.24 only with both zeros: 1.2.34 is a version.
        r"(?<![\w./-])(?:0[1-9]|[12]\d|3[01])\.(?:0[1-9]|1[0-2])\.\d{2}(?![\w/-]|\.\d)",
        # January 15th, 2024; Jan. 15; January 2024.
        rf"(?<!\w){MONTH}\.?[ ](?:{DAY}(?:st|nd|rd|th)?(?:,?[ ]\d{{4}})?|\d{{4}})(?!\w)",
        # 15 January 2024, 15th of January, 15. Januar 2024, 1er janvier.
        rf"(?<![\w.])(?:{DAY}(?:st|nd|rd|th|\.)?|1er)[ ](?:of[ ])?{MONTH}(?!\w)(?:\.?,?[ ]\d{{4}}(?!\w))?",
        # 2024年1月15日, 1月15日, 2024年1月.
        r"(?<!\d)(?:\d{4}年\d{1,2}月(?:\d{1,2}日)?|\d{1,2}月\d{1,2}日)",
    )
]

SYMBOL = "[$€£¥₹₩₽₺₪฿₫₴]"
CODE = "(?:USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|INR|KRW|SEK|NOK|DKK|PLN|BRL|MXN|ZAR|AED|SAR|EGP)"
AMOUNT = r"(?:\d{1,3}(?:[,.'’ \u00a0\u202f]\d{3}){1,6}(?:[.,]\d{1,2})?|\d{1,15}(?:[.,]\d{1,2})?)(?![\d])"
SCALE = r"(?:[ \u00a0]?(?:thousand|million|billion|trillion|millionen|milliarden|millions|milliards|mio|mrd|bn|[kKmM])(?!\w))"
UNIT = r"(?:(?:US[ ])?dollars?|euros?|pounds?|francs?|franken|yen|yuan|rupees?|cents?)"
MONEY_PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\w$])(?:(?:US|C|A|NZ|HK)?{SYMBOL}|{CODE})[ \u00a0]?{AMOUNT}{SCALE}?",
        rf"(?<![\w.,]){AMOUNT}{SCALE}?[ \u00a0\u202f]?(?:{SYMBOL}|(?:{CODE}|{UNIT})(?!\w)|[円元])",
    )
]


def find_urls(text: str) -> Iterator[Entity]:
    """Links with a scheme, or beginning with www."""
    for match in URL.finditer(text):
        end = end_of_url(text, match.start(), match.end())
        host = re.sub(r"^(?:\w+://|www\.)", "", text[match.start() : end], flags=re.IGNORECASE)
        if host[:1].isalnum() or host[:1] == "[":
            yield Entity("URL", match.start(), end, 0.95)


def end_of_url(text: str, start: int, end: int) -> int:
    """Gives punctuation behind a link back to its sentence; a bracket stays if it was opened inside."""
    opened = text.count("(", start, end)
    closed = text.count(")", start, end)
    while end > start and (text[end - 1] in ".,;:!?*_…" or (text[end - 1] == ")" and closed > opened)):
        closed -= text[end - 1] == ")"
        end -= 1
    return end


def find_emails(text: str) -> Iterator[Entity]:
    """Mail addresses; a dot may stand in the local part, but not twice in a row."""
    for match in EMAIL.finditer(text):
        if ".." not in match[0]:
            yield Entity("EMAIL", match.start(), match.end(), 0.9)


def find_dates(text: str) -> Iterator[Entity]:
    """Calendar dates, numeric or with a month's name in English, German, French or Japanese."""
    for pattern in DATE_PATTERNS:
        for match in pattern.finditer(text):
            yield Entity("DATE", match.start(), match.end(), 0.7)


def find_money(text: str) -> Iterator[Entity]:
    """Amounts with a currency before or behind."""
    for pattern in MONEY_PATTERNS:
        for match in pattern.finditer(text):
            yield Entity("MONEY", match.start(), match.end(), 0.8)


def find_phones(text: str) -> Iterator[Entity]:
    """Phone numbers in the usual groupings, seven to fifteen digits as E.164 allows."""
    for match in PHONE.finditer(text):
        digits = sum(character.isdigit() for character in match[0])
        if 7 <= digits <= 15:
            yield Entity("PHONE", match.start(), match.end(), 0.8)


# Names, by spelling and word lists.

TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
POSSESSIVES = ("'s", "’s")
ELISION = re.compile(r"(?:[cdjlmnst]|qu)['’](?=\w)")
SENTENCE_START = re.compile(r"(?:\A|[.!?…:;\n\r\"“”«»„•(-])\s*\Z")

# Small words inside a name: Ludwig van Beethoven, Bank of America.
PARTICLES = frozenset("de da di do dos del della van von der den zu la le du bin ibn al el of".split())
TITLES = frozenset(
    """mr mrs ms miss dr prof professor sir madam lord lady president senator governor minister
    chancellor captain general colonel major king queen prince princess pope judge reverend saint
    herr herrn frau monsieur madame mademoiselle mme mlle señor señora""".split()
)
# Capitalised at the start of a sentence or in a letter, but never part of a name.
NOT_NAMES = frozenset(
    """a an the this that these those he she it we they i you his her its our their my your
    and or but if so then when while where who what why how because although however after before
    in on at by for from to with of as into over under about near since until during
    is are was were be has have had do does did will would can could should may might must
    not no yes all any some each every both many most more other another such one two three
    contact call email mail phone ask tell meet see visit write send read note please dear hello hi
    hey thanks thank welcome let here there today tomorrow yesterday now also only just even
    according regards sincerely subject re fwd via per new best
    january february march april june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday
    der die das den dem des ein eine einer eines einem einen und oder aber wenn als er sie es wir ihr
    ich im am zum zur von mit für auf bei nach aus über unter vor seit wie was wer wo warum
    januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag
    samstag sonntag
    les un une des et ou mais si quand il elle ils elles nous vous je on ce cette ces dans sur avec
    pour par chez depuis comme ni sans quant oh ah version
    english german french spanish italian japanese chinese arabic russian american british european
    internet web api json html http""".split()
)
FIRST_NAMES = frozenset(
    """aaron abdul abigail adam ahmed aisha akira alan albert alejandro alex alexander alexandra ali
    alice alicia amanda amelia amina amir amy ana andrea andreas andrew angela anita anna anne anthony
    antoine antonio anya arjun arthur barack barbara benjamin bernard bertha bill bob boris brian bruce
    camille carl carla carlos carmen caroline catherine cecilia charles charlotte chen chiara chris
    christian christina christine christopher claire clara claude claudia colin dan daniel daniela
    david deborah deepak denis diana diego dmitri dominic donald dorothy edward eleanor elena elizabeth
    ellen emily emma eric erik ernst esther eva evelyn fatima felix fernando fiona florence francesca
    francis franz françois frank frederick friedrich gabriel gary george georg gerald gerhard giovanni
    giulia giuseppe gregor gregory guillaume gustav hannah hans harold harry hassan heinrich helen helena
    henri henry hermann hiroshi howard hugo ibrahim ines ingrid irene isaac isabel isabella ivan jack
    jacob jacques james jan jane janet jason jean jennifer jessica jim joan joanna johann johannes john
    jonathan jorge josé jose josef joseph joshua juan judith jules julia julian julie karen karl kate
    katherine kathleen keiko keith kenji kenneth kevin khalid klaus kumar lars laura lauren lawrence leila
    leo leonardo li linda lisa louis louise lucas lucia ludwig luis lukas maria marie marco margaret marguerite
    mario marion marta martha martin mary masako mathilde matthew max mei mehmet melissa michael michel michelle
    miguel mohamed mohammed monica muhammad nadia nancy natalia nathan nicholas nicolas nicole nikolai nina
    noah nora oliver olivia omar oscar otto pablo patricia patrick paul paula pedro peter philip philippe
    pierre priya rachel rahul ralph raymond rebecca richard robert roberto roger roland ronald rosa rudolf
    ruth ryan sam samantha samuel sandra sanjay sara sarah sebastian sergei sharon simon simone sofia
    sophia sophie stefan stephanie stephen steven susan suzanne sven sylvia takeshi tanaka tatiana teresa
    theodor theresa thomas tim timothy tom ursula valentina vanessa victor victoria vincent virginia
    vladimir walter wei werner wilhelm william winston wolfgang xavier yasmin yuki yusuf yves zhang""".split()
)
LEGAL_FORMS = frozenset("inc corp corporation ltd limited llc llp plc gmbh ag kg se sa sarl spa bv nv oy ab co company".split())
ORGANIZATION_WORDS = frozenset(
    """university college institute academy school laboratory laboratories foundation association
    society federation union agency authority bureau commission committee council ministry department
    parliament senate congress court bank group holdings partners technologies systems industries
    airlines motors press party league club museum hospital organization organisation
    universität hochschule institut ministerium stiftung verein bundesbank université ministère banque
    société""".split()
)
ORGANIZATIONS = frozenset(
    """google microsoft apple amazon facebook meta ibm intel nvidia samsung sony toyota honda siemens
    bosch volkswagen bmw nasa nato unesco unicef who un eu fbi cia bbc cnn reuters netflix twitter
    openai mozilla wikipedia oracle cisco boeing airbus nestlé novartis roche ikea""".split()
)
LOCATION_HEADS = frozenset("mount mont lake lac port fort cape isle rue".split())
LOCATION_TAILS = frozenset(
    """street avenue road boulevard lane square river island islands mountain mountains ocean sea
    valley peninsula county province desert bay canyon falls harbour harbor straße strasse platz""".split()
)
# Words that keep "of" inside a place: Republic of Korea, Gulf of Mexico.
LOCATION_OF = frozenset("republic kingdom states state gulf bay isle isles strait city province cape".split())
LOCATIONS = frozenset(
    name.strip()
    for name in """afghanistan, africa, alaska, albania, algeria, america, amsterdam, ankara, antarctica,
    arabia, argentina, arizona, asia, athens, atlanta, auckland, australia, austria, baghdad, bangkok,
    bangladesh, barcelona, bavaria, bayern, beijing, beirut, belgium, belgrade, bengaluru, berlin, berne, bogotá,
    bolivia, boston, bratislava, brazil, brussels, bucharest, budapest, buenos aires, bulgaria, cairo,
    california, cambodia, cambridge, canada, cape town, caracas, chicago, chile, china, cologne, colombia,
    copenhagen, costa rica, croatia, cuba, cyprus, dallas, damascus, delhi, denmark, deutschland, dresden, dubai,
    dublin, ecuador, edinburgh, egypt, england, estonia, ethiopia, europe, finland, florence, florida,
    france, frankfurt, geneva, georgia, germany, ghana, glasgow, greece, greenland, hamburg, hanoi, havana,
    hawaii, helsinki, hong kong, houston, hungary, iceland, india, indonesia, iran, iraq, ireland, israel,
    istanbul, italy, jakarta, japan, jerusalem, jordan, kenya, kiev, kyiv, kyoto, köln, leipzig, lebanon,
    libya, lima, lisbon, liverpool, london, los angeles, lyon, madrid, malaysia, manchester, manhattan,
    marseille, melbourne, mexico, mexico city, miami, milan, montreal, morocco, moscow, mumbai, munich, münchen,
    nairobi, naples, nepal, netherlands, new delhi, new york, new york city, new zealand, nigeria,
    north korea, norway, oslo, ottawa, oxford, pakistan, palestine, paris, peru, philadelphia,
    philippines, poland, portugal, prague, prag, quebec, rio de janeiro, romania, rome, russia, san francisco,
    san diego, santiago, saudi arabia, scotland, seattle, seoul, serbia, shanghai, siberia, singapore,
    slovakia, slovenia, south africa, south korea, soviet union, spain, stockholm, stuttgart, sudan, sweden,
    switzerland, sydney, syria, taipei, taiwan, tehran, texas, thailand, tokyo, toronto, tunisia, turkey,
    ukraine, united kingdom, united states, united states of america, venice, vienna, vietnam, wales, warsaw,
    washington, wien, zurich, zürich, österreich, schweiz, frankreich, italien, genf, europa, allemagne,
    angleterre, espagne, italie, suisse, londres, amérique, australie, afrique, asie, calcutta, usa, uk""".split(",")
)
KEEPS_OF = ORGANIZATION_WORDS | LOCATION_OF
ENDS_ORGANIZATION = ORGANIZATION_WORDS | LEGAL_FORMS
GERMANIC_PARTICLES = frozenset("van von der den zu".split())
# Enough to tell these apart; the earlier wins a tie.
SMALL_WORDS = {
    "english": ("the", "and", "of"),
    "german": ("der", "die", "und"),
    "french": ("le", "les", "et"),
}
# Before a single capitalised word of English these say "place".
PLACE_PREPOSITIONS = frozenset("in near".split())


def find_names(text: str) -> Iterator[Entity]:
    """People, organizations and places in scripts that have capital letters."""
    language = guess_language(text)
    for run in capitalised_runs(text):
        for part in split_run(run):
            entity = classify(text, part, language)
            if entity:
                yield entity


def capitalised_runs(text: str) -> Iterator[List[Token]]:
    """Neighbouring capitalised words, with the particles between them."""
    run: List[Token] = []
    pending: List[Token] = []
    before: Optional[Token] = None
    for match in TOKEN.finditer(text):
        token = without_elision(Token(match[0], match.start(), match.end()))
        joined = before is not None and run and is_joined(text, before, token)
        if joined and is_particle(token.word, pending):
            pending.append(token)
        elif not is_capitalised(token.word):
            yield from ended(run)
            run, pending = [], []
        elif joined and len(run) + len(pending) < LONGEST_RUN:
            run = run + pending + [token]
            pending = []
        else:
            yield from ended(run)
            run, pending = [token], []
        before = token
        if run and not pending and token.word.endswith(POSSESSIVES):
            yield from ended(run[:-1] + [without_possessive(token)])
            run = []
    yield from ended(run)


def is_particle(word: str, pending: List[Token]) -> bool:
    """Whether a small word may be inside a name; German articles are only behind "von" or "van"."""
    return word in PARTICLES and len(pending) < 2 and (word not in ("der", "den") or bool(pending))


def ended(run: List[Token]) -> Iterator[List[Token]]:
    """A finished run, if it is one."""
    if run:
        yield run


def without_elision(token: Token) -> Token:
    """The word behind a French elision: "Europe" in "l’Europe"."""
    match = ELISION.match(token.word)
    return Token(token.word[match.end() :], token.start + match.end(), token.end) if match else token


def without_possessive(token: Token) -> Token:
    """The name whose possessive this is."""
    return Token(token.word[:-2], token.start, token.end - 2)


def is_capitalised(word: str) -> bool:
    """Titlecase counts as well: some letters have a third form."""
    return word[0].isupper() or word[0].istitle()


def is_joined(text: str, before: Token, token: Token) -> bool:
    """One space, or the dot of an initial or a title, and nothing else lies between."""
    if token.start - before.end > 3:
        return False
    gap = text[before.end : token.start].replace("\u00a0", " ")
    abbreviated = len(before.word) == 1 or before.key in TITLES or before.key == "st"
    return gap in (" ", " & ") or (gap in (". ", ".") and abbreviated)


def split_run(run: List[Token]) -> Iterator[List[Token]]:
    """Takes apart what only stands side by side: "John Smith of Oxford", "Berlin Herr Müller"."""
    start = 0
    for index, token in enumerate(run):
        if token.word.islower() and separates(run, start, index):
            yield run[start:index]
            start = index + 1
        elif index > start and token.key in TITLES:
            yield run[start:index]
            start = index
    yield run[start:]


def separates(run: List[Token], start: int, index: int) -> bool:
    """Whether a particle stands between two names instead of inside one.

    "of" is inside only behind a word for a kind of thing ("Bank of America"). The others are inside
    a person's name, so not before an organization ("Müller von der Deutsche Bank AG").
    """
    if run[index].word == "of":
        return not any(one.key in KEEPS_OF for one in run[start:index])
    return run[index].word in GERMANIC_PARTICLES and run[-1].key in ENDS_ORGANIZATION


def guess_language(text: str) -> str:
    """The language whose small words are the most frequent; it decides what a capital letter proves."""
    words = f" {text.casefold()} "
    counts = {name: sum(words.count(f" {word} ") for word in small) for name, small in SMALL_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else "unknown"


def classify(text: str, run: List[Token], language: str) -> Optional[Entity]:
    """Says what a run of capitalised words names, if anything."""
    run, titled = without_frame(run, language)
    if not run:
        return None
    phrase = " ".join(token.key for token in run)
    if phrase in LOCATIONS and not titled:
        return entity_of("LOCATION", run, 0.7)
    return (
        as_organization(run)
        or as_marked_location(run)
        or as_person(text, run, titled, language)
        or as_place_after_preposition(text, run, language)
    )


def without_frame(run: List[Token], language: str) -> Tuple[List[Token], bool]:
    """Takes away what surrounds a name: sentence openers in front, titles, trailing small words."""
    titled = False
    while run and not is_known_phrase(run):
        is_title = run[0].key in TITLES or (run[0].word == "M" and language == "french")
        if not is_title and run[0].key not in NOT_NAMES and not run[0].word.islower():
            break
        titled = titled or is_title
        run = run[1:]
    while run and not is_known_phrase(run) and run[-1].key in NOT_NAMES:
        run = run[:-1]
    return run, titled


def is_known_phrase(run: List[Token]) -> bool:
    """A name that begins with a word which otherwise begins none, as "New York" and "WHO" do."""
    is_acronym = len(run) == 1 and run[0].word.isupper() and run[0].key in ORGANIZATIONS
    return is_acronym or " ".join(token.key for token in run) in LOCATIONS


def entity_of(kind: str, run: List[Token], confidence: float) -> Entity:
    """The entity that spans a run."""
    return Entity(kind, run[0].start, run[-1].end, confidence)


def as_organization(run: List[Token]) -> Optional[Entity]:
    """A legal form at the end, a word for a kind of organization, or a well-known name."""
    if len(run) == 1:
        return entity_of("ORGANIZATION", run, 0.7) if run[0].key in ORGANIZATIONS else None
    if run[-1].key in LEGAL_FORMS:
        return entity_of("ORGANIZATION", run, 0.8)
    if any(token.key in ORGANIZATION_WORDS for token in (run[0], run[-1])):
        return entity_of("ORGANIZATION", run, 0.6)
    has_word = any(token.key in ORGANIZATION_WORDS and after.word == "of" for token, after in zip(run, run[1:]))
    return entity_of("ORGANIZATION", run, 0.6) if has_word else None


def as_marked_location(run: List[Token]) -> Optional[Entity]:
    """A place that says so itself: Baker Street, Mount Fuji, Republic of Korea."""
    if len(run) < 2:
        return None
    inner_of = any(token.key in LOCATION_OF and after.word == "of" for token, after in zip(run, run[1:]))
    if run[0].key in LOCATION_HEADS or run[-1].key in LOCATION_TAILS or inner_of:
        return entity_of("LOCATION", run, 0.6)
    return None


def as_person(text: str, run: List[Token], titled: bool, language: str) -> Optional[Entity]:
    """Two or more name words, one behind a title, or a single known first name."""
    run = from_first_name(run)
    known = run[0].key in FIRST_NAMES
    if not is_spelled_as_name(run):
        return None
    if titled or (known and len(run) > 1):
        return entity_of("PERSON", run, 0.85 if titled else 0.75)
    if len(run) == 1:
        return entity_of("PERSON", run, 0.5) if known else None
    if language == "german":
        return None  # All nouns are capitalised, so two in a row prove nothing.
    return entity_of("PERSON", run, 0.5 if opens_sentence(text, run[0].start) else 0.6)


def is_spelled_as_name(run: List[Token]) -> bool:
    """Not too long, not shouted, and more than initials."""
    spelled = all(is_name_word(token.word) for token in run) and len(run) <= LONGEST_NAME
    return spelled and any(len(token.word) > 1 for token in run)


def from_first_name(run: List[Token]) -> List[Token]:
    """Starts a name at its first known first name: "Yesterday Maria Garcia" begins with Maria."""
    for index, token in enumerate(run[:-1]):
        if token.key in FIRST_NAMES and not any(len(one.word) == 1 for one in run[:index]):
            return run[index:]
    return run


def is_name_word(word: str) -> bool:
    """Capitalised but not shouted; an initial or a particle is a name word too."""
    return len(word) == 1 or word in PARTICLES or not word.isupper()


def opens_sentence(text: str, start: int) -> bool:
    """Whether a capital letter here proves nothing."""
    return bool(SENTENCE_START.search(text[max(0, start - 4) : start]))


def as_place_after_preposition(text: str, run: List[Token], language: str) -> Optional[Entity]:
    """A single unknown name behind "in" or "near"; in German every noun would qualify."""
    word = run[0].word
    if language != "english" or len(run) != 1 or word.isupper() or len(word) < 3:
        return None
    before = text[max(0, run[0].start - 8) : run[0].start].split()
    follows = bool(before) and before[-1] in PLACE_PREPOSITIONS and text[run[0].start - 1] == " "
    return entity_of("LOCATION", run, 0.5) if follows else None


# Names in scripts without capital letters: well-known places, and names that carry a marker.

PLACES_UNSPACED = re.compile(
    "東京都|東京|大阪|京都|北海道|横浜|名古屋|神戸|福岡|広島|札幌|沖縄|日本|中国|韓国|台湾|北京|上海|香港|"
    "米国|英国|アメリカ|イギリス|フランス|ドイツ|イタリア|ロンドン|パリ|ベルリン|ニューヨーク|ロシア|インド|"
    "美国|法国|德国|巴黎|伦敦|纽约|广州|深圳"
)
PLACES_ARABIC = re.compile(
    r"(?<!\w)[وفبلك]?(القاهرة|مصر|بغداد|العراق|دمشق|سوريا|بيروت|لبنان|الرياض|مكة|المدينة المنورة|السعودية|"
    r"دبي|الإمارات|المغرب|تونس|الجزائر|ليبيا|السودان|الأردن|عمان|القدس|فلسطين|اليمن|صنعاء|الكويت|قطر|"
    r"باريس|لندن|فرنسا|ألمانيا|الصين|الهند|الأندلس)(?!\w)"
)
HAN = "\u4e00-\u9fff々"
KATAKANA = "\u30a0-\u30ff"
ORGANIZATION_UNSPACED = re.compile(
    f"株式会社[{HAN}{KATAKANA}A-Za-z]{{1,12}}|[{HAN}{KATAKANA}A-Za-z]{{1,12}}(?:株式会社|大学|銀行|研究所|新聞社)"
)
PERSON_UNSPACED = re.compile(f"[{HAN}]{{1,4}}(?=さん|氏|様|先生)|[{KATAKANA}]{{2,10}}・[{KATAKANA}]{{2,10}}")


def find_unspaced_names(text: str) -> Iterator[Entity]:
    """Japanese, Chinese and Arabic names, as far as short lists and markers carry."""
    for match in PLACES_UNSPACED.finditer(text):
        yield Entity("LOCATION", match.start(), match.end(), 0.7)
    for match in PLACES_ARABIC.finditer(text):
        yield Entity("LOCATION", match.start(1), match.end(1), 0.7)
    for match in ORGANIZATION_UNSPACED.finditer(text):
        yield Entity("ORGANIZATION", match.start(), match.end(), 0.6)
    for match in PERSON_UNSPACED.finditer(text):
        yield Entity("PERSON", match.start(), match.end(), 0.5)
