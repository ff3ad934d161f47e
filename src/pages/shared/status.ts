/** Whether payments are still collected for a subscription with this status. */
export const isLive = (status: string): boolean => status === 'active' || status === 'past_due';
