import type { Words } from './en.ts';

export const words: Words = {
  loading: 'Wird geladen',
  tryAgain: 'Erneut versuchen',
  details: 'Einzelheiten',
  showMore: 'Mehr anzeigen',
  listFailed: 'Diese Liste kann gerade nicht angezeigt werden.',
  stopped: 'Diese Seite funktioniert nicht mehr.',
  reload: 'Neu laden',
  copy: '{what} kopieren',
  copied: 'Kopiert',
  explorer: 'Im Explorer ansehen',
  mySubscriptions: 'Meine Abos',
  reportPlan: 'Diesen Tarif melden',
  reportAbuse: 'Missbrauch melden',
  language: 'Sprache',
  zone: 'Zeiten: {zone}',
  showZone: '{zone} anzeigen',
  useAnother: 'Andere Wallet verwenden',
  stopWaiting: 'Nicht länger warten',
  signOut: 'Abmelden',
  preparing: 'Wird vorbereitet …',
  yourAddress: 'Ihre Adresse',
  merchantWallet: 'Wallet des Händlers',
  subscriptionAddress: 'Adresse des Abos',
  signature: 'Signatur',
  status: {
    active: 'Aktiv',
    past_due: 'Überfällig',
    cancelled: 'Gekündigt',
    expired: 'Beendet',
    succeeded: 'Bezahlt',
    failed: 'Fehlgeschlagen',
    paused: 'Pausiert',
    replaced: 'Ersetzt',
    ends: 'Endet am {date}',
  },
  error: {
    tooMany: {
      one: 'Zu viele Anfragen. Versuchen Sie es in {n} Sekunde erneut.',
      other: 'Zu viele Anfragen. Versuchen Sie es in {n} Sekunden erneut.',
    },
    unreachable:
      'Der Dienst ist nicht erreichbar. Prüfen Sie Ihre Verbindung und versuchen Sie es erneut.',
    declined: 'Sie haben in Ihrer Wallet abgelehnt.',
    declinedWhy: 'Ihre Wallet hat abgelehnt: {reason}',
    walletSays: 'Ihre Wallet meldet: {reason}',
    noReason: 'Ihre Wallet ist gescheitert und hat keinen Grund genannt.',
    noAccount: 'Ihre Wallet hat dieser Seite kein Konto freigegeben.',
    noKey:
      'Das Konto, das Ihre Wallet freigegeben hat, hat keinen eigenen Schlüssel, wie der Tresor einer Multisig: Es kann sich hier nicht anmelden. Wählen Sie ein Konto mit Schlüssel, zum Beispiel Ihr eigenes als Mitglied.',
    watched:
      'Das Konto, das Ihre Wallet freigegeben hat, kann nicht signieren, etwa weil es nur beobachtet wird. Wählen Sie in der Wallet ein anderes Konto.',
    noSignature: 'Ihre Wallet hat keine Signatur geliefert. Versuchen Sie es erneut.',
    noTransaction: 'Ihre Wallet hat keine Transaktion geliefert. Versuchen Sie es erneut.',
    otherAccount:
      'Ihre Wallet hat sich mit dem Konto {signed} angemeldet, dieser Seite aber {shared} freigegeben. Wählen Sie in der Wallet eines der beiden Konten und versuchen Sie es erneut.',
    altered:
      'Ihre Wallet hat etwas anderes signiert, als diese Seite angefragt hat. Es wurde nichts gesendet.',
    alteredNext:
      'Manche Wallets setzen eigene Gebühren oder fügen Anweisungen hinzu. Schalten Sie das in den Einstellungen der Wallet ab und versuchen Sie es erneut, oder verwenden Sie eine andere Wallet.',
    paysItself:
      'Der Dienst kann die Netzwerkgebühr deshalb nicht übernehmen. Versuchen Sie es erneut: Dann bezahlt Ihre Wallet die Gebühr selbst, in SOL.',
  },
  refused: {
    UNAUTHORIZED: 'Der Dienst hat die Anmeldung nicht angenommen.',
    FORBIDDEN:
      'Der Dienst lässt das für diese Wallet nicht zu. Verwenden Sie eine andere Wallet oder fragen Sie den Händler.',
    NOT_FOUND: 'Das gibt es nicht mehr. Bitten Sie den Händler um einen neuen Link.',
    VALIDATION_ERROR:
      'Der Dienst konnte nicht verwenden, was diese Seite gesendet hat. Laden Sie die Seite neu.',
    CONFLICT: 'Inzwischen hat sich etwas geändert. Laden Sie die Seite neu, um den Stand zu sehen.',
    INTERNAL_ERROR: 'Der Dienst ist zurzeit gestört. Versuchen Sie es in einer Minute erneut.',
  },
  obstacle: {
    connect: '{wallet} kann hier nicht verwendet werden: Sie verbindet sich nicht mit Websites.',
    transactions:
      '{wallet} kann hier nicht verwendet werden: Sie signiert keine Solana-Transaktionen.',
    merchant:
      '{wallet} kann hier nicht verwendet werden: Sie signiert nur Transaktionen, Händler melden sich aber mit einer Nachricht an.',
    messages:
      '{wallet} kann hier nicht verwendet werden: Sie signiert keine Nachrichten, was für die Anmeldung nötig ist.',
  },
  network: {
    other:
      '{wallet} ist nicht mit {network} verbunden. Wechseln Sie das Netzwerk oder verwenden Sie eine andere Wallet.',
  },
  choice: {
    account: {
      title: 'Konto wählen',
      text: '{wallet} gibt dieser Seite mehrere Konten frei. Wählen Sie das Konto, das hier verwendet werden soll.',
    },
    subscribe: {
      with: 'Zahlungspflichtig bestellen mit {wallet}',
      group: 'Mit einer Wallet abonnieren',
      inBrowser: 'Im Browser Ihrer Wallet abonnieren:',
    },
    signIn: {
      with: 'Mit {wallet} anmelden',
      group: 'Mit einer Wallet anmelden',
      inBrowser: 'Im Browser Ihrer Wallet anmelden:',
    },
    openIn: 'In {wallet} öffnen',
    noneUsable: 'Mit keiner Wallet dieses Browsers können Sie sich hier anmelden.',
    none: 'Dieser Browser hat keine Solana-Wallet.',
    scan: 'Scannen Sie den Code, um diese Seite mit der Wallet auf Ihrem Telefon zu öffnen, oder installieren Sie eine Wallet und laden Sie die Seite neu:',
    qr: 'QR-Code dieser Seite',
  },
  phone: {
    wallet: 'Ihrer Wallet-App',
    allow: {
      title: 'Verbindung zu Ihrer Wallet-App erlauben',
      text: 'Ihr Browser fragt nun, ob diese Seite sich mit Apps auf diesem Gerät verbinden darf. Wählen Sie „Zulassen“.',
      button: 'Weiter',
    },
    open: {
      title: 'Weiter in Ihrer Wallet-App',
      text: 'Ihr Browser öffnet eine App nur nach einem Tippen. Es wird nichts signiert, bevor Sie es in der App bestätigen.',
      button: 'Wallet-App öffnen',
    },
    blocked:
      'Ihr Browser erlaubt dieser Seite keine Verbindung zu Apps auf diesem Gerät. Erlauben Sie sie in den Einstellungen dieser Website und versuchen Sie es erneut.',
    unanswered:
      'Keine Wallet-App hat geantwortet. Installieren Sie eine, oder öffnen Sie diese Seite im Browser Ihrer Wallet.',
  },
  signIn: {
    connect: 'Verbinden Sie sich in {wallet} …',
    sign: 'Melden Sie sich mit {wallet} an. Das kostet nichts.',
    connecting: 'Verbindung mit {wallet} wird hergestellt …',
    switched: 'Ihre Wallet hat das Konto gewechselt. Melden Sie sich mit dem neuen Konto an.',
    again: 'Erneut anmelden',
    ended:
      'Eine Anmeldung gilt eine Stunde, und diese ist abgelaufen. Melden Sie sich mit {wallet} an, um dort weiterzumachen, wo Sie waren. Das kostet nichts.',
    tooOld:
      'Für einen neuen Schlüssel oder ein neues Geheimnis muss die Anmeldung jünger als fünf Minuten sein. Melden Sie sich mit {wallet} an, um dort weiterzumachen, wo Sie waren. Das kostet nichts.',
    notNow: 'Nicht jetzt',
  },
  period: {
    per: {
      hour: 'pro Stunde',
      day: 'pro Tag',
      week: 'pro Woche',
      twoWeeks: 'alle 2 Wochen',
      month: 'pro Monat',
      quarter: 'alle 3 Monate',
      halfYear: 'alle 6 Monate',
      year: 'pro Jahr',
      other: 'alle {span}',
    },
    every: {
      hour: 'jede Stunde',
      day: 'jeden Tag',
      week: 'jede Woche',
      twoWeeks: 'alle 2 Wochen',
      month: 'jeden Monat',
      quarter: 'alle 3 Monate',
      halfYear: 'alle 6 Monate',
      year: 'jedes Jahr',
      other: 'alle {span}',
    },
    exact: 'Gerechnet als {length}, daher verschiebt sich der Zahltag etwas.',
  },
  discount: {
    each: '{off} Rabatt auf jede Zahlung',
    some: {
      one: '{off} Rabatt auf eine Zahlung',
      other: '{off} Rabatt auf {n} Zahlungen',
    },
  },
  summary: {
    label: 'Ihr Tarif',
    title: '{plan} abonnieren',
    discount: 'Rabatt',
    trial: 'Kostenlos testen, einmal pro Wallet',
    today: 'Heute',
    forTime: '{from} bis {until}',
    thenEvery: 'Danach {every}, ab {date}',
    thenTimes: {
      one: 'Danach noch einmal, am {date}',
      other: 'Danach noch {n}-mal {every}, ab {date}',
    },
    noPayment: 'Vor dem Ende des Tarifs ist keine Zahlung fällig.',
    cancelNote: 'Bis Sie kündigen.',
    endsNote: 'Bis der Tarif endet.',
    planEnds: 'Der Tarif endet',
    paidTo: 'Zahlung an',
    website: 'Website',
    claimsWebsite: 'Nennt {host} als Website, was nicht nachgewiesen ist.',
  },
  seller: {
    contact: 'Support:',
    support: 'Support',
    terms: 'Bedingungen',
    privacy: 'Datenschutz',
  },
  page: {
    loading: 'Der Tarif wird geladen …',
    nowhere: 'Dieser Link führt nirgendwohin',
    noPlan:
      'Unter dieser Adresse gibt es keinen Tarif. Bitten Sie den Händler um einen neuen Link.',
    noCheckout:
      'Unter dieser Adresse gibt es keinen Bezahlvorgang. Bitten Sie den Händler um einen neuen Link.',
    failed: 'Der Tarif kann nicht angezeigt werden',
  },
  step: {
    connect: 'Verbinden Sie sich in {wallet} …',
    signIn: 'Melden Sie sich mit {wallet} an. Das kostet nichts.',
    check: 'Ihr Guthaben wird gelesen …',
    sign: 'Bestätigen Sie das Abo in {wallet} …',
    send: 'Ihre Transaktion wird gesendet …',
    confirm: 'Warten auf die Bestätigung des Netzwerks …',
    look: 'Ihre Wallet hat einen Fehler gemeldet. Es wird geprüft, ob Ihre Transaktion trotzdem gesendet wurde …',
    sent: 'Ihre Zahlung ist gesendet. Warten auf das Netzwerk …',
    processed: 'Das Netzwerk hat Ihre Zahlung. Warten auf die Bestätigung …',
    confirmed: 'Ihre Zahlung ist bestätigt. Warten, bis sie endgültig ist …',
  },
  stage: {
    sent: 'Gesendet',
    processed: 'Im Netzwerk angekommen',
    confirmed: 'Bestätigt',
    final: 'Endgültig',
  },
  panel: {
    pay: 'Mit USDC bezahlen',
    subscribe: 'Zahlungspflichtig bestellen',
    unavailable: 'Nicht verfügbar',
    pending: 'Der Händler hat diesen Tarif noch nicht veröffentlicht. Kommen Sie später wieder.',
    sunset: 'Dieser Tarif nimmt keine neuen Abonnenten an. Bestehende Abos laufen weiter.',
    ended: 'Dieser Tarif ist beendet.',
    blocked:
      'Der Händler kann für diesen Tarif gerade keine Zahlungen empfangen. Kommen Sie später wieder.',
    suspended: 'Dieser Händler nimmt zurzeit keine Abos an.',
    completeTitle: 'Dieser Bezahlvorgang ist abgeschlossen',
    complete:
      'Das Abo hat begonnen, hier ist nichts mehr zu tun. Sie finden es unter „Meine Abos“.',
    expired: 'Dieser Bezahlvorgang ist abgelaufen. Bitten Sie den Händler um einen neuen Link.',
    seeMine: 'Meine Abos ansehen',
    manage: 'Unter „Meine Abos“ verwalten',
    backTo: 'Zurück zu {app}',
    otherNetwork: 'Anderes Netzwerk',
    notOn: '{wallet} ist nicht mit {network} verbunden.',
    switchNetwork:
      'Stellen Sie die Wallet in ihren Einstellungen auf {network} um oder verwenden Sie eine andere.',
    switched: 'Sie haben das Konto gewechselt',
    switchedText:
      'Ihre Wallet zeigt dieser Seite jetzt ein anderes Konto. Es wurde nichts bezahlt.',
    cannot: 'Sie können nicht abonnieren',
    ownWallet: 'Das ist die Wallet des Händlers selbst. Abonnieren Sie mit einer anderen.',
    frozen:
      'Das USDC-Konto dieser Wallet ist vom Herausgeber von USDC gesperrt, sie kann daher nicht zahlen. Verwenden Sie eine andere Wallet.',
    endedByMerchant: 'Der Händler hat Ihr Abo dieses Tarifs beendet.',
    planBlocked:
      'Der Händler kann für diesen Tarif gerade keine Zahlungen empfangen. Es wurde nichts signiert.',
    planClosed: 'Dieser Tarif nimmt keine neuen Abonnenten mehr an.',
    second:
      'Sie haben bereits ein Abo bei diesem Händler, vielleicht mit einer anderen Wallet. Es wurde nichts bezahlt. Um neu zu abonnieren, kündigen Sie zuerst das andere unter „Meine Abos“.',
    otherTerms: 'Andere Bedingungen für diese Wallet',
    noTrial:
      'Diese Wallet hat hier schon kostenlos getestet: Beim Abonnieren zahlen Sie {amount} USDC. Bisher wurde nichts bezahlt.',
    hasTrial:
      'Diese Wallet kann kostenlos testen: {span}. Danach wird die erste Zahlung eingezogen. Bisher wurde nichts bezahlt.',
    runs: 'Ihr früheres Abo dieses Tarifs läuft in dieser Wallet noch bis {date}. Mit dem Abonnieren geht es weiter: Sie zahlen {amount} USDC für den Rest dieser Zeit. Bisher wurde nichts bezahlt.',
    runsPaid:
      'Ihr früheres Abo dieses Tarifs läuft in dieser Wallet noch bis {date}, und diese Zeit ist bezahlt. Mit dem Abonnieren geht es weiter: Sie zahlen heute nichts.',
    open: 'Diese Wallet hat bereits ein Abo',
    openText:
      'Das Abo der Wallet für diesen Tarif ist auf der Blockchain offen, aber nicht angemeldet. Wenn Sie fortfahren, werden sofort {amount} USDC abgebucht. Ihre Wallet muss nichts unterschreiben.',
    openFree:
      'Das Abo der Wallet für diesen Tarif ist auf der Blockchain offen, aber nicht angemeldet. Wenn Sie fortfahren, wird heute nichts abgebucht. Ihre Wallet muss nichts unterschreiben.',
    openPay: 'Anmelden und {amount} USDC zahlen',
    openRegister: 'Anmelden',
    otherToday:
      'Mit dieser Wallet zahlen Sie beim Abonnieren {amount} USDC. Bisher wurde nichts bezahlt.',
    otherApproval: 'Eine andere Freigabe endet',
    otherApprovalText:
      'Ihr USDC-Konto ist für ein anderes Programm freigegeben: {address}. Ein USDC-Konto hat nur Platz für eine Freigabe: Wenn Sie abonnieren, endet die andere, und was damit bezahlt wird, hört auf. Bisher wurde nichts bezahlt.',
    elsewhere:
      'Ihr USDC-Konto ist für ein anderes Programm freigegeben, {address}, und nicht mehr für dieses Abo. Ein USDC-Konto hat nur Platz für eine Freigabe: Wenn Sie diese Zahlungen wieder freigeben oder den Tarif wechseln, endet die andere, und was damit bezahlt wird, hört auf.',
    otherApprovalAddress: 'Adresse der anderen Freigabe',
    already: 'Sie haben dieses Abo bereits',
    allGood: 'Diese Wallet hat den Tarif abonniert. Sie müssen nichts tun.',
    cancelled: 'Sie haben gekündigt.',
    runsUntil: 'Das Abo läuft bis {date}. Danach können Sie es neu abschließen.',
    resume: 'Abo fortsetzen',
    notApproved: 'Die Zahlungen sind nicht freigegeben.',
    notApprovedText:
      'Ihre Wallet hat die Freigabe zurückgezogen, daher wird die nächste Zahlung fehlschlagen. Geben Sie die Zahlungen wieder frei, um das Abo zu behalten.',
    approve: 'Zahlungen wieder freigeben',
    approved: 'Die Zahlungen sind wieder freigegeben.',
    resumed: 'Ihre Kündigung ist zurückgenommen. Das Abo läuft weiter.',
    replaced: 'Dieses Abo kann nicht mehr bezahlt werden.',
    replacedText:
      'Die Freigabe, mit der es abgeschlossen wurde, ist in Ihrer Wallet ersetzt worden. Kündigen Sie es unter „Meine Abos“ und schließen Sie es neu ab.',
    promise: 'Was Sie freigeben.',
    promiseText:
      'Für diesen Tarif können Ihrer Wallet höchstens {amount} USDC {period} abgebucht werden. Ihre Wallet zeigt die Freigabe vielleicht als unbegrenzt an: Die Grenze setzt das Programm „Subscriptions“ auf Solana durch.',
    cancelAny: 'Jederzeit kündbar',
    cancelText:
      'unter {link}. Was Sie bezahlt haben, behalten Sie. Um eine Erstattung bitten Sie den Händler.',
    cancelTextCredit:
      'unter {link}. Die bezahlte Zeit behalten Sie; ein Guthaben, das dann übrig ist, verfällt. Um eine Erstattung bitten Sie den Händler.',
    signedInAs: 'Angemeldet als {address} mit {wallet}',
  },
  problem: {
    lapsed: 'Die Anfrage ist abgelaufen',
    lapsedText:
      'Eine Anfrage an Ihre Wallet gilt etwa eine Minute. Es wurde nichts bezahlt. Versuchen Sie es erneut und bestätigen Sie früher in Ihrer Wallet.',
    slow: 'Das dauert länger als sonst',
    slowText: 'Laden Sie die Seite in ein paar Minuten neu. Sie zahlen nicht doppelt.',
    unsigned: 'Ihre Zahlung wurde nicht gesendet',
    unsignedText:
      'Versuchen Sie es in ein paar Minuten erneut oder verwenden Sie eine andere Wallet.',
    sends: 'Ihre Wallet braucht hier etwas SOL',
    sendsText:
      'Ihre Wallet sendet Transaktionen selbst, deshalb kann der Dienst die Netzwerkgebühr nicht übernehmen. Sie brauchen außer USDC ein wenig SOL. Es wurde nichts bezahlt. Abonnieren Sie erneut, um fortzufahren.',
    failed: 'Die Transaktion ist fehlgeschlagen',
    refused: 'Das Netzwerk hat sie abgelehnt. Es wurde nichts bezahlt.',
    connect: 'Ihre Wallet ist nicht verbunden',
    signIn: 'Sie sind nicht angemeldet',
    sign: 'Sie haben nicht abonniert',
    nothingPaid: '{text} Es wurde nichts bezahlt.',
    unsure:
      '{text} Ob etwas bezahlt wurde, steht noch nicht fest. Versuchen Sie es in zwei Minuten erneut: Sie zahlen nicht doppelt.',
    altered: 'Ihre Wallet hat die Transaktion verändert',
    otherWallet: 'Diese Wallet kann diesen Bezahlvorgang nicht verwenden',
    notAccepted: 'Ihre Anmeldung wurde nicht angenommen',
    signInAgain: '{text} Melden Sie sich erneut an.',
    other: 'Das hat nicht geklappt',
  },
  short: {
    usdc: 'Ihre Wallet braucht mehr USDC',
    sol: 'Ihre Wallet braucht mehr SOL',
    both: 'Ihre Wallet braucht mehr USDC und SOL',
    late: 'Der Dienst übernimmt die Netzwerkgebühr zurzeit nicht, deshalb zahlt Ihre Wallet sie selbst, in SOL. Was Sie signiert haben, wurde nicht gesendet. Es wurde nichts bezahlt.',
    token: 'Währung',
    have: 'Vorhanden',
    needed: 'Benötigt',
    missing: 'Es fehlen',
    why: 'Mit SOL bezahlen Sie das Netzwerk: eine Gebühr und Pfandbeträge, die Sie zurückbekommen, wenn Sie das Abo schließen.',
    send: 'Senden Sie {amounts} im Solana-Netzwerk an die Adresse Ihrer Wallet:',
    watching:
      'Diese Seite beobachtet Ihre Wallet und macht von selbst weiter, sobald das Geld da ist.',
    buy: 'USDC kaufen',
    qr: 'QR-Code Ihrer Adresse',
    check: 'Erneut prüfen',
  },
  done: {
    title: 'Ihr Abo ist abgeschlossen',
    thanks: 'Vielen Dank. Ihr Abo {plan} bei {app} hat begonnen.',
    collecting: 'Die erste Zahlung wird eingezogen …',
    failed: 'Die erste Zahlung ist fehlgeschlagen',
    waits: 'Ihr Abo {plan} bei {app} beginnt, sobald es bezahlt ist. Bisher wurde nichts bezahlt.',
    freeUntil: 'Kostenlos bis',
    firstPayment: 'Erste Zahlung',
    paid: 'Bezahlt',
    paidUntil: 'Bezahlt bis',
    next: 'Nächste Zahlung',
    payment: 'Zahlung',
    goOn: 'Weiter zu {app}',
  },
  unpaid: {
    insufficient_funds:
      'Ihre Wallet hat zu wenig USDC. Laden Sie USDC auf: Die Zahlung wird dann von selbst erneut versucht.',
    allowance_exhausted:
      'Die Freigabe Ihrer Wallet deckt die Zahlung nicht. Geben Sie die Zahlungen wieder frei, um das Abo zu behalten.',
    account_frozen:
      'Das USDC-Konto Ihrer Wallet ist vom Herausgeber von USDC gesperrt. Die Zahlung wird von selbst erneut versucht, wenn die Sperre endet.',
    account_closed:
      'Das USDC-Konto Ihrer Wallet wurde geschlossen, und damit ist auch die Freigabe erloschen. Laden Sie USDC auf (das öffnet das Konto wieder), und geben Sie die Zahlungen dann wieder frei: Danach laufen sie von selbst weiter.',
    account_owner_changed:
      'Das USDC-Konto gehört jetzt einer anderen Wallet. Kündigen Sie und abonnieren Sie neu mit der Wallet, die zahlt.',
    delegate_replaced:
      'Die Freigabe Ihrer Wallet für dieses Abo besteht nicht mehr. Geben Sie die Zahlungen wieder frei, um das Abo zu behalten.',
    authority_closed:
      'Ihre Wallet hat das Konto geschlossen, das Zahlungen freigibt. Dieses Abo kann deshalb nicht mehr bezahlt werden. Kündigen Sie es und schließen Sie es neu ab.',
    authority_replaced:
      'Die Freigabe, mit der das Abo abgeschlossen wurde, ist in Ihrer Wallet ersetzt worden. Kündigen Sie es und schließen Sie es neu ab.',
    unknown: 'Die Zahlung konnte nicht eingezogen werden. Sie wird von selbst erneut versucht.',
  },
  account: {
    title: 'Ihre Abos ansehen und verwalten',
    text: 'Melden Sie sich mit der Wallet an, die dafür zahlt. Die Anmeldung kostet nichts und bewegt kein Geld.',
    heading: 'Ihre Abos',
    none: 'Noch keine Abos',
    noneText:
      'Hier erscheinen die Abos dieser Wallet. Wenn Sie mit einer anderen Wallet zahlen, melden Sie sich mit dieser an.',
    subscription: 'Abo',
    next: 'Nächste Zahlung',
    freeUntil: 'Kostenlos bis',
    paused: 'Vom Händler pausiert',
    wasDue: 'Nächster Versuch',
    paidUntil: 'Bezahlt bis',
    ends: 'Endet',
    ended: 'Beendet',
    since: 'Seit',
    lastFailed: 'Die letzte Zahlung ist fehlgeschlagen.',
    cancel: 'Abo kündigen',
    resume: 'Fortsetzen',
    close: 'Schließen und Pfand zurückholen',
    closeOnly: 'Schließen',
    payments: 'Zahlungen',
    hidePayments: 'Zahlungen ausblenden',
    receipt: 'Beleg',
    openReceipt: 'Beleg öffnen',
    withCredit: 'und {amount} Guthaben',
    refunded: '{amount} erstattet',
    noPayments: 'Noch keine Zahlungen.',
    paidTo: 'Zahlung an {merchant} · Abo {subscription}',
    date: 'Datum',
    state: 'Status',
    amount: 'Betrag',
    transaction: 'Transaktion',
    confirm: 'Bestätigen Sie in Ihrer Wallet …',
    waiting: 'Warten auf das Netzwerk …',
    cancelled: 'Gekündigt. Es wird nichts mehr abgebucht; was Sie bezahlt haben, behalten Sie.',
    cancelledUnpaid: 'Gekündigt. Es wird nichts mehr abgebucht.',
    staySubscribed: 'Abo behalten',
    creditEnds:
      'Sie haben noch {amount} Guthaben. Nach der Kündigung bezahlt es nichts mehr. Es wird nicht ausgezahlt und verfällt, wenn das Abo endet. Wenn Sie das Abo vorher fortsetzen, behalten Sie es.',
    cancelledCredit:
      'Gekündigt. Es wird nichts mehr abgebucht, und {amount} USDC Guthaben sind übrig. Das Guthaben verfällt, wenn das Abo endet, außer Sie setzen es vorher fort.',
    closed: 'Geschlossen. Das Pfand ist wieder in Ihrer Wallet.',
    closedOnly: 'Geschlossen.',
    revoke: 'Freigabe zurückziehen',
    revokeText:
      'Alle Abos dieser Wallet teilen sich eine Freigabe. Wenn Sie keines mehr brauchen, können Sie sie zurückziehen.',
    revokeAsk: 'Freigabe zurückziehen?',
    revokeWarn:
      'Danach kann kein Abo dieser Wallet mehr bezahlt werden, auch keines bei anderen Diensten.',
    revokeUndo: 'Sie können die Zahlungen später wieder freigeben, und die Abos laufen weiter.',
    revokeForGood:
      'Das lässt sich nicht rückgängig machen: Danach müssen Sie alle Abos neu abschließen.',
    revokeClose:
      'Auch alle diese Abos endgültig beenden und das Konto dahinter schließen. Das Pfand geht an den zurück, der es bezahlt hat.',
    keep: 'Behalten',
    revoked: 'Die Freigabe ist zurückgezogen.',
    lapsed:
      'Die Anfrage an Ihre Wallet ist abgelaufen. Es hat sich nichts geändert. Versuchen Sie es erneut.',
    refused: 'Das Netzwerk hat sie abgelehnt.',
    unsent:
      'Es wurde nichts gesendet und nichts geändert. Versuchen Sie es in ein paar Minuten erneut.',
    slow: 'Das dauert länger als sonst. Laden Sie die Seite in einer Minute neu.',
    replacedText:
      'Die Freigabe, mit der es abgeschlossen wurde, ist in Ihrer Wallet ersetzt worden. Kündigen Sie es und schließen Sie es neu ab.',
  },
  change: {
    terms:
      'Sie wechseln den Tarif. Die Übersicht zeigt, was Sie zahlen, mit dem Guthaben für bereits Bezahltes. Es wurde noch nichts bezahlt.',
    title: 'Tarif wechseln',
    to: 'Wechsel zu {plan}',
    leaves: 'Tarif, der endet',
    none: 'Dieser Händler hat keinen anderen Tarif, zu dem Sie wechseln können.',
    now: 'Jetzt zahlungspflichtig wechseln',
    later: 'Zum Ende des bezahlten Zeitraums zahlungspflichtig wechseln',
    atOnce: 'Jetzt',
    atEnd: 'Am Ende des bezahlten Zeitraums',
    discount: 'Ihr Rabatt endet mit dem Tarif, den Sie verlassen.',
    credit: 'Guthaben für bereits Bezahltes',
    today: 'Heute',
    nothing: 'Nichts',
    next: 'Nächste Zahlung',
    after: 'Danach',
    changed: 'Ihr Tarif ist gewechselt.',
    replaced: 'Durch einen anderen Tarif ersetzt',
  },
};
