import type { Words } from './en.ts';

export const words: Words = {
  loading: 'Chargement',
  tryAgain: 'Réessayer',
  details: 'Détails',
  showMore: 'Afficher plus',
  listFailed: 'Cette liste ne peut pas être affichée pour le moment.',
  stopped: 'Cette page a cessé de fonctionner.',
  reload: 'Recharger',
  copy: 'Copier {what}',
  copied: 'Copié',
  explorer: 'Voir dans l’explorateur',
  mySubscriptions: 'Mes abonnements',
  reportPlan: 'Signaler cette formule',
  reportAbuse: 'Signaler un abus',
  language: 'Langue',
  zone: 'Heures : {zone}',
  showZone: 'Afficher {zone}',
  useAnother: 'Utiliser un autre portefeuille',
  stopWaiting: 'Ne plus attendre',
  signOut: 'Se déconnecter',
  preparing: 'Préparation…',
  yourAddress: 'votre adresse',
  merchantWallet: 'le portefeuille du marchand',
  subscriptionAddress: 'l’adresse de l’abonnement',
  signature: 'la signature',
  status: {
    active: 'Actif',
    past_due: 'Paiement en retard',
    cancelled: 'Résilié',
    expired: 'Terminé',
    succeeded: 'Payé',
    failed: 'Échoué',
    paused: 'En pause',
    replaced: 'Remplacé',
    ends: 'Se termine le {date}',
  },
  error: {
    tooMany: {
      one: 'Trop de requêtes. Réessayez dans {n} seconde.',
      other: 'Trop de requêtes. Réessayez dans {n} secondes.',
    },
    unreachable: 'Le service est injoignable. Vérifiez votre connexion et réessayez.',
    declined: 'Vous avez refusé dans votre portefeuille.',
    declinedWhy: 'Votre portefeuille a refusé : {reason}',
    walletSays: 'Votre portefeuille indique : {reason}',
    noReason: 'Votre portefeuille a échoué sans indiquer de raison.',
    noAccount: 'Votre portefeuille n’a partagé aucun compte avec cette page.',
    noKey:
      'Le compte partagé par votre portefeuille n’a pas de clé propre, comme le coffre d’une multisignature : il ne peut pas se connecter ici. Choisissez un compte avec une clé, par exemple le vôtre en tant que membre.',
    watched:
      'Le compte que votre portefeuille a partagé ne peut pas signer : il est peut-être seulement suivi. Choisissez un autre compte dans le portefeuille.',
    noSignature: 'Votre portefeuille n’a renvoyé aucune signature. Réessayez.',
    noTransaction: 'Votre portefeuille n’a renvoyé aucune transaction. Réessayez.',
    otherAccount:
      'Votre portefeuille s’est connecté avec le compte {signed}, mais a partagé {shared} avec cette page. Choisissez l’un des deux dans le portefeuille et réessayez.',
    altered:
      'Votre portefeuille a signé autre chose que ce que cette page demandait. Rien n’a été envoyé.',
    alteredNext:
      'Certains portefeuilles fixent leurs propres frais ou ajoutent des instructions. Désactivez cela dans les réglages du portefeuille et réessayez, ou utilisez un autre portefeuille.',
    paysItself:
      'Le service ne peut donc pas prendre en charge les frais de réseau. Réessayez : votre portefeuille paiera alors ces frais lui-même, en SOL.',
  },
  refused: {
    UNAUTHORIZED: 'Le service n’a pas accepté la connexion.',
    FORBIDDEN:
      'Le service ne l’autorise pas pour ce portefeuille. Utilisez un autre portefeuille ou adressez-vous au marchand.',
    NOT_FOUND: 'Cela n’existe plus. Demandez un nouveau lien au marchand.',
    VALIDATION_ERROR:
      'Le service n’a pas pu utiliser ce que cette page a envoyé. Rechargez la page.',
    CONFLICT: 'Quelque chose a changé entre-temps. Rechargez la page pour voir où cela en est.',
    INTERNAL_ERROR: 'Le service est en panne en ce moment. Réessayez dans une minute.',
  },
  obstacle: {
    connect: '{wallet} ne peut pas être utilisé ici : il ne se connecte pas aux sites web.',
    transactions: '{wallet} ne peut pas être utilisé ici : il ne signe pas de transactions Solana.',
    merchant:
      '{wallet} ne peut pas être utilisé ici : il ne signe que des transactions, alors que les marchands se connectent avec un message.',
    messages:
      '{wallet} ne peut pas être utilisé ici : il ne signe pas de messages, ce qui est nécessaire pour se connecter.',
  },
  network: {
    other: '{wallet} n’est pas sur {network}. Changez de réseau ou utilisez un autre portefeuille.',
  },
  choice: {
    account: {
      title: 'Choisissez un compte',
      text: '{wallet} partage plusieurs comptes avec cette page. Choisissez celui à utiliser ici.',
    },
    subscribe: {
      with: 'Commande avec obligation de paiement ({wallet})',
      group: 'S’abonner avec un portefeuille',
      inBrowser: 'Abonnez-vous dans le navigateur de votre portefeuille :',
    },
    signIn: {
      with: 'Se connecter avec {wallet}',
      group: 'Se connecter avec un portefeuille',
      inBrowser: 'Connectez-vous dans le navigateur de votre portefeuille :',
    },
    openIn: 'Ouvrir dans {wallet}',
    noneUsable: 'Aucun portefeuille de ce navigateur ne permet de se connecter ici.',
    none: 'Ce navigateur n’a pas de portefeuille Solana.',
    scan: 'Scannez le code pour ouvrir cette page avec le portefeuille de votre téléphone, ou installez-en un et rechargez la page :',
    qr: 'Code QR de cette page',
  },
  phone: {
    wallet: 'votre application de portefeuille',
    allow: {
      title: 'Autorisez la connexion à votre application de portefeuille',
      text: 'Votre navigateur demande maintenant si cette page peut se connecter aux applications de cet appareil. Choisissez « Autoriser ».',
      button: 'Continuer',
    },
    open: {
      title: 'Continuez dans votre application de portefeuille',
      text: 'Votre navigateur n’ouvre une application qu’après un appui. Rien n’est signé avant que vous le confirmiez dans l’application.',
      button: 'Ouvrir l’application',
    },
    blocked:
      'Votre navigateur ne laisse pas cette page se connecter aux applications de cet appareil. Autorisez-le dans les paramètres de ce site, puis réessayez.',
    unanswered:
      'Aucune application de portefeuille n’a répondu. Installez-en une, ou ouvrez cette page dans le navigateur de votre portefeuille.',
  },
  signIn: {
    connect: 'Connectez-vous dans {wallet}…',
    sign: 'Identifiez-vous avec {wallet}. C’est gratuit.',
    connecting: 'Connexion à {wallet}…',
    switched: 'Votre portefeuille a changé de compte : connectez-vous avec le nouveau.',
    again: 'Se reconnecter',
    ended:
      'Une connexion est valable une heure, et celle-ci a expiré. Reconnectez-vous avec {wallet} pour reprendre où vous en étiez. C’est gratuit.',
    tooOld:
      'Créer une clé ou un secret demande une connexion de moins de cinq minutes. Reconnectez-vous avec {wallet} pour reprendre où vous en étiez. C’est gratuit.',
    notNow: 'Plus tard',
  },
  period: {
    per: {
      hour: 'par heure',
      day: 'par jour',
      week: 'par semaine',
      twoWeeks: 'toutes les 2 semaines',
      month: 'par mois',
      quarter: 'tous les 3 mois',
      halfYear: 'tous les 6 mois',
      year: 'par an',
      other: 'par période de {span}',
    },
    every: {
      hour: 'chaque heure',
      day: 'chaque jour',
      week: 'chaque semaine',
      twoWeeks: 'toutes les 2 semaines',
      month: 'chaque mois',
      quarter: 'tous les 3 mois',
      halfYear: 'tous les 6 mois',
      year: 'chaque année',
      other: 'à intervalles de {span}',
    },
    exact: 'Compté comme {length} : le jour du paiement se décale donc légèrement.',
  },
  discount: {
    each: '{off} de réduction sur chaque paiement',
    some: {
      one: '{off} de réduction sur un paiement',
      other: '{off} de réduction sur {n} paiements',
    },
  },
  summary: {
    label: 'Votre formule',
    title: 'S’abonner à {plan}',
    discount: 'Réduction',
    trial: 'Essai gratuit, une fois par portefeuille',
    today: 'Aujourd’hui',
    forTime: 'Du {from} au {until}',
    thenEvery: 'Puis {every}, à partir du {date}',
    thenTimes: {
      one: 'Puis encore une fois, le {date}',
      other: 'Puis encore {n} fois {every}, à partir du {date}',
    },
    noPayment: 'Aucun paiement n’est dû avant la fin de la formule.',
    cancelNote: 'Jusqu’à votre résiliation.',
    endsNote: 'Jusqu’à la fin de la formule.',
    planEnds: 'Fin de la formule',
    paidTo: 'Payé à',
    website: 'Site web',
    claimsWebsite: 'Indique {host} comme site web, ce qui n’est pas vérifié.',
  },
  seller: {
    contact: 'Assistance :',
    support: 'Assistance',
    terms: 'Conditions',
    privacy: 'Confidentialité',
  },
  page: {
    loading: 'Chargement de la formule…',
    nowhere: 'Ce lien ne mène nulle part',
    noPlan: 'Il n’y a pas de formule à cette adresse. Demandez un nouveau lien au marchand.',
    noCheckout: 'Il n’y a pas de paiement à cette adresse. Demandez un nouveau lien au marchand.',
    failed: 'La formule ne peut pas être affichée',
  },
  step: {
    connect: 'Connectez-vous dans {wallet}…',
    signIn: 'Identifiez-vous avec {wallet}. C’est gratuit.',
    check: 'Lecture de vos soldes…',
    sign: 'Confirmez l’abonnement dans {wallet}…',
    send: 'Envoi de votre transaction…',
    confirm: 'En attente de la confirmation du réseau…',
    look: 'Votre portefeuille a signalé une erreur. Vérification que votre transaction n’est pas partie malgré tout…',
    sent: 'Votre paiement est envoyé. En attente du réseau…',
    processed: 'Le réseau a reçu votre paiement. En attente de la confirmation…',
    confirmed: 'Votre paiement est confirmé. En attente qu’il soit définitif…',
  },
  stage: {
    sent: 'Envoyé',
    processed: 'Reçu par le réseau',
    confirmed: 'Confirmé',
    final: 'Définitif',
  },
  panel: {
    pay: 'Payer en USDC',
    subscribe: 'Commande avec obligation de paiement',
    unavailable: 'Indisponible',
    pending: 'Le marchand n’a pas encore publié cette formule. Revenez plus tard.',
    sunset:
      'Cette formule n’accepte plus de nouveaux abonnés. Les abonnements en cours continuent.',
    ended: 'Cette formule est terminée.',
    blocked:
      'Le marchand ne peut pas recevoir de paiements pour cette formule en ce moment. Revenez plus tard.',
    suspended: 'Ce marchand n’accepte pas d’abonnements en ce moment.',
    completeTitle: 'Ce paiement est terminé',
    complete:
      'L’abonnement a commencé, il n’y a plus rien à faire ici. Vous le trouverez dans « Mes abonnements ».',
    expired: 'Ce paiement a expiré. Demandez un nouveau lien au marchand.',
    seeMine: 'Voir mes abonnements',
    manage: 'Le gérer dans « Mes abonnements »',
    backTo: 'Retour à {app}',
    otherNetwork: 'Autre réseau',
    notOn: '{wallet} n’est pas sur {network}.',
    switchNetwork:
      'Passez le portefeuille sur {network} dans ses réglages, ou utilisez-en un autre.',
    switched: 'Vous avez changé de compte',
    switchedText:
      'Votre portefeuille présente maintenant un autre compte à cette page. Rien n’a été payé.',
    cannot: 'Vous ne pouvez pas vous abonner',
    ownWallet:
      'C’est le portefeuille du marchand lui-même. Utilisez-en un autre pour vous abonner.',
    frozen:
      'Le compte USDC de ce portefeuille est gelé par l’émetteur de l’USDC : il ne peut pas payer. Utilisez un autre portefeuille.',
    endedByMerchant: 'Le marchand a mis fin à votre abonnement à cette formule.',
    planBlocked:
      'Le marchand ne peut pas recevoir de paiements pour cette formule en ce moment. Rien n’a été signé.',
    planClosed: 'Cette formule n’accepte plus de nouveaux abonnés.',
    second:
      'Vous avez déjà un abonnement chez ce marchand, peut-être avec un autre portefeuille. Rien n’a été payé. Pour vous abonner de nouveau, résiliez d’abord l’autre dans « Mes abonnements ».',
    otherTerms: 'D’autres conditions pour ce portefeuille',
    noTrial:
      'Ce portefeuille a déjà bénéficié d’un essai gratuit ici : vous payez {amount} USDC en vous abonnant. Rien n’a encore été payé.',
    hasTrial:
      'Ce portefeuille bénéficie d’un essai gratuit de {span}. Le premier paiement est prélevé ensuite. Rien n’a encore été payé.',
    runs: 'Votre précédent abonnement à cette formule court encore dans ce portefeuille jusqu’au {date}. En vous abonnant, il continue : vous payez {amount} USDC pour le reste de cette durée. Rien n’a encore été payé.',
    runsPaid:
      'Votre précédent abonnement à cette formule court encore dans ce portefeuille jusqu’au {date}, et cette durée est payée. En vous abonnant, il continue : vous ne payez rien aujourd’hui.',
    open: 'Ce portefeuille a déjà un abonnement',
    openText:
      'L’abonnement du portefeuille à cette formule est ouvert sur la chaîne, mais pas enregistré. Si vous continuez, {amount} USDC sont prélevés tout de suite. Votre portefeuille n’a rien à signer.',
    openFree:
      'L’abonnement du portefeuille à cette formule est ouvert sur la chaîne, mais pas enregistré. Si vous continuez, rien n’est prélevé aujourd’hui. Votre portefeuille n’a rien à signer.',
    openPay: 'Enregistrer et payer {amount} USDC',
    openRegister: 'Enregistrer',
    otherToday:
      'Avec ce portefeuille, vous payez {amount} USDC en vous abonnant. Rien n’a encore été payé.',
    otherApproval: 'Une autre autorisation prend fin',
    otherApprovalText:
      'Votre compte USDC est autorisé pour un autre programme, {address}. Un compte USDC n’accepte qu’une autorisation : si vous vous abonnez, l’autre prend fin et ce qu’elle sert à payer s’arrête. Rien n’a encore été payé.',
    elsewhere:
      'Votre compte USDC est autorisé pour un autre programme, {address}, et ne l’est plus pour cet abonnement. Un compte USDC n’accepte qu’une autorisation : si vous autorisez de nouveau ces paiements ou changez de formule, l’autre prend fin et ce qu’elle sert à payer s’arrête.',
    otherApprovalAddress: 'Adresse de l’autre autorisation',
    already: 'Vous êtes déjà abonné',
    allGood: 'Ce portefeuille a déjà cette formule. Vous n’avez rien à faire.',
    cancelled: 'Vous avez résilié.',
    runsUntil: 'L’abonnement court jusqu’au {date}. Vous pourrez ensuite vous réabonner.',
    resume: 'Reprendre l’abonnement',
    notApproved: 'Les paiements ne sont pas autorisés.',
    notApprovedText:
      'Votre portefeuille a retiré son autorisation : le prochain paiement échouera. Autorisez de nouveau pour garder l’abonnement.',
    approve: 'Autoriser de nouveau les paiements',
    approved: 'Les paiements sont de nouveau autorisés.',
    resumed: 'Votre résiliation est annulée. L’abonnement continue.',
    replaced: 'Cet abonnement ne peut plus être payé.',
    replacedText:
      'L’autorisation avec laquelle il a été souscrit a été remplacée dans votre portefeuille. Résiliez-le dans « Mes abonnements », puis abonnez-vous de nouveau.',
    promise: 'Ce que vous autorisez.',
    promiseText:
      'Au plus {amount} USDC {period} peuvent être prélevés sur votre portefeuille pour cette formule. Votre portefeuille peut afficher une autorisation illimitée : c’est le programme Subscriptions, sur Solana, qui fait respecter la limite.',
    cancelAny: 'Résiliable à tout moment',
    cancelText:
      'dans {link}. Ce que vous avez payé vous reste acquis. Pour un remboursement, adressez-vous au marchand.',
    cancelTextCredit:
      'dans {link}. Le temps que vous avez payé vous reste acquis ; le crédit qui reste alors est perdu. Pour un remboursement, adressez-vous au marchand.',
    signedInAs: 'Connecté en tant que {address} avec {wallet}',
  },
  problem: {
    lapsed: 'La demande a expiré',
    lapsedText:
      'Une demande à votre portefeuille est valable environ une minute. Rien n’a été payé. Réessayez et confirmez plus tôt dans votre portefeuille.',
    slow: 'Cela prend plus de temps que d’habitude',
    slowText: 'Rechargez la page dans quelques minutes. Vous ne serez pas débité deux fois.',
    unsigned: 'Votre paiement n’a pas été envoyé',
    unsignedText: 'Réessayez dans quelques minutes, ou utilisez un autre portefeuille.',
    sends: 'Votre portefeuille a besoin d’un peu de SOL ici',
    sendsText:
      'Votre portefeuille envoie lui-même les transactions, le service ne peut donc pas prendre en charge les frais de réseau. En plus des USDC, il vous faut un peu de SOL. Rien n’a été payé. Abonnez-vous de nouveau pour continuer.',
    failed: 'La transaction a échoué',
    refused: 'Le réseau l’a refusée. Rien n’a été payé.',
    connect: 'Votre portefeuille n’est pas connecté',
    signIn: 'Vous n’êtes pas connecté',
    sign: 'Vous n’êtes pas abonné',
    nothingPaid: '{text} Rien n’a été payé.',
    unsure:
      '{text} On ne sait pas encore si un paiement a eu lieu. Réessayez dans deux minutes : vous ne serez pas débité deux fois.',
    altered: 'Votre portefeuille a modifié la transaction',
    otherWallet: 'Ce portefeuille ne peut pas utiliser ce paiement',
    notAccepted: 'Votre connexion n’a pas été acceptée',
    signInAgain: '{text} Reconnectez-vous.',
    other: 'Cela n’a pas fonctionné',
  },
  short: {
    usdc: 'Il manque des USDC dans votre portefeuille',
    sol: 'Il manque des SOL dans votre portefeuille',
    both: 'Il manque des USDC et des SOL dans votre portefeuille',
    late: 'Le service ne prend pas en charge les frais de réseau en ce moment : votre portefeuille les paie lui-même, en SOL. Ce que vous avez signé n’a pas été envoyé. Rien n’a été payé.',
    token: 'Monnaie',
    have: 'Vous avez',
    needed: 'Requis',
    missing: 'Manquant',
    why: 'Les SOL paient le réseau : des frais, et des dépôts que vous récupérez en fermant l’abonnement.',
    send: 'Envoyez {amounts} sur le réseau Solana à l’adresse de votre portefeuille :',
    watching:
      'Cette page surveille votre portefeuille et continue d’elle-même dès que l’argent est arrivé.',
    buy: 'Acheter des USDC',
    qr: 'Code QR de votre adresse',
    check: 'Vérifier de nouveau',
  },
  done: {
    title: 'Vous êtes abonné',
    thanks: 'Merci. Votre abonnement à {plan} chez {app} a commencé.',
    collecting: 'Prélèvement du premier paiement…',
    failed: 'Le premier paiement a échoué',
    waits:
      'Votre abonnement à {plan} chez {app} commencera une fois payé. Rien n’a encore été payé.',
    freeUntil: 'Gratuit jusqu’au',
    firstPayment: 'Premier paiement',
    paid: 'Payé',
    paidUntil: 'Payé jusqu’au',
    next: 'Prochain paiement',
    payment: 'Paiement',
    goOn: 'Continuer vers {app}',
  },
  unpaid: {
    insufficient_funds:
      'Votre portefeuille n’a pas assez d’USDC. Ajoutez-en : le paiement sera retenté automatiquement.',
    allowance_exhausted:
      'L’autorisation de votre portefeuille ne couvre pas le paiement. Autorisez de nouveau les paiements pour garder l’abonnement.',
    account_frozen:
      'Le compte USDC de votre portefeuille est gelé par l’émetteur de l’USDC. Le paiement sera retenté automatiquement quand le gel prendra fin.',
    account_closed:
      'Le compte USDC de votre portefeuille a été fermé, et l’autorisation a pris fin avec lui. Ajoutez des USDC, ce qui rouvre le compte, puis autorisez de nouveau les paiements : ils reprendront automatiquement.',
    account_owner_changed:
      'Le compte USDC appartient maintenant à un autre portefeuille. Résiliez, puis abonnez-vous de nouveau avec le portefeuille qui paie.',
    delegate_replaced:
      'L’autorisation de votre portefeuille pour cet abonnement n’existe plus. Autorisez de nouveau les paiements pour garder l’abonnement.',
    authority_closed:
      'Votre portefeuille a fermé le compte qui autorise les paiements : cet abonnement ne peut plus être payé. Résiliez-le, puis abonnez-vous de nouveau.',
    authority_replaced:
      'L’autorisation avec laquelle l’abonnement a été souscrit a été remplacée dans votre portefeuille. Résiliez-le, puis abonnez-vous de nouveau.',
    unknown: 'Le paiement n’a pas pu être prélevé. Il sera retenté automatiquement.',
  },
  account: {
    title: 'Consultez et gérez vos abonnements',
    text: 'Connectez-vous avec le portefeuille qui les paie. La connexion est gratuite et ne déplace pas d’argent.',
    heading: 'Vos abonnements',
    none: 'Pas encore d’abonnement',
    noneText:
      'Les abonnements de ce portefeuille apparaissent ici. Si vous payez avec un autre portefeuille, connectez-vous avec celui-ci.',
    subscription: 'Abonnement',
    next: 'Prochain paiement',
    freeUntil: 'Gratuit jusqu’au',
    paused: 'Mis en pause par le marchand',
    wasDue: 'Prochain essai',
    paidUntil: 'Payé jusqu’au',
    ends: 'Se termine le',
    ended: 'Terminé le',
    since: 'Depuis le',
    lastFailed: 'Le dernier paiement a échoué.',
    cancel: 'Résilier l’abonnement',
    resume: 'Reprendre',
    close: 'Fermer et récupérer le dépôt',
    closeOnly: 'Fermer',
    payments: 'Paiements',
    hidePayments: 'Masquer les paiements',
    receipt: 'Reçu',
    openReceipt: 'Ouvrir le reçu',
    withCredit: 'et {amount} de crédit',
    refunded: '{amount} remboursés',
    noPayments: 'Pas encore de paiement.',
    paidTo: 'Payé à {merchant} · abonnement {subscription}',
    date: 'Date',
    state: 'État',
    amount: 'Montant',
    transaction: 'Transaction',
    confirm: 'Confirmez dans votre portefeuille…',
    waiting: 'En attente du réseau…',
    cancelled: 'Résilié. Plus rien ne sera prélevé ; ce que vous avez payé vous reste acquis.',
    cancelledUnpaid: 'Résilié. Plus rien ne sera prélevé.',
    staySubscribed: 'Garder l’abonnement',
    creditEnds:
      'Il vous reste {amount} de crédit. Après la résiliation, il ne paie plus rien. Il n’est pas versé en argent et il est perdu à la fin de l’abonnement. Si vous reprenez l’abonnement avant sa fin, vous le gardez.',
    cancelledCredit:
      'Résilié. Plus rien ne sera prélevé et il reste {amount} USDC de crédit. Il est perdu à la fin de l’abonnement, sauf si vous le reprenez avant.',
    closed: 'Fermé. Le dépôt est de retour dans votre portefeuille.',
    closedOnly: 'Fermé.',
    revoke: 'Retirer l’autorisation',
    revokeText:
      'Tous les abonnements de ce portefeuille partagent une autorisation. Si vous n’en avez plus besoin, vous pouvez la retirer.',
    revokeAsk: 'Retirer l’autorisation ?',
    revokeWarn:
      'Aucun abonnement de ce portefeuille ne pourra alors être payé, y compris auprès d’autres services.',
    revokeUndo:
      'Vous pourrez autoriser de nouveau les paiements plus tard, et les abonnements continueront.',
    revokeForGood: 'C’est irréversible : il faudra ensuite souscrire de nouveaux abonnements.',
    revokeClose:
      'Mettre aussi fin définitivement à tous ces abonnements et fermer le compte correspondant. Le dépôt revient à celui qui l’a payé.',
    keep: 'La garder',
    revoked: 'L’autorisation est retirée.',
    lapsed: 'La demande à votre portefeuille a expiré. Rien n’a changé. Réessayez.',
    refused: 'Le réseau l’a refusée.',
    unsent: 'Rien n’a été envoyé ni changé. Réessayez dans quelques minutes.',
    slow: 'Cela prend plus de temps que d’habitude. Rechargez la page dans une minute.',
    replacedText:
      'L’autorisation avec laquelle il a été souscrit a été remplacée dans votre portefeuille. Résiliez-le, puis abonnez-vous de nouveau.',
  },
  change: {
    terms:
      'Vous changez de formule. Le récapitulatif indique ce que vous payez, avec le crédit pour ce que vous avez payé. Rien n’a encore été payé.',
    title: 'Changer de formule',
    to: 'Passer à {plan}',
    leaves: 'Formule qui prend fin',
    none: 'Ce commerçant n’a pas d’autre formule vers laquelle changer.',
    now: 'Changer maintenant avec obligation de paiement',
    later: 'Changer à la fin de la période payée, avec obligation de paiement',
    atOnce: 'Maintenant',
    atEnd: 'À la fin de la période payée',
    discount: 'Votre remise prend fin avec la formule que vous quittez.',
    credit: 'Crédit pour ce que vous avez payé',
    today: 'Aujourd’hui',
    nothing: 'Rien',
    next: 'Prochain paiement',
    after: 'Ensuite',
    changed: 'Votre formule est changée.',
    replaced: 'Remplacé par une autre formule',
  },
};
