import { mount } from '../shared/mount.tsx';
import { DashboardPage } from './page.tsx';

mount(<DashboardPage />);
